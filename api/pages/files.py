"""/static: the scripts and styles of the pages, all of them from this service."""

from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse

from streamsvm.service.errors import ServiceError

router = APIRouter(include_in_schema=False)

_FOLDER = Path(__file__).parent / "static"
_FILES = {path.relative_to(_FOLDER).as_posix(): path for path in _FOLDER.rglob("*") if path.is_file()}


@router.get("/static/{name:path}", operation_id="getStatic")
def get_static(name: str) -> FileResponse:
    """Send a file of the folder `static`; no name reaches other files."""
    if name not in _FILES:
        raise ServiceError("no_such_route", "there is no such file")
    # The browser asks each time, and gets the file only if it has changed.
    return FileResponse(_FILES[name], headers={"Cache-Control": "no-cache"})
