"""/reference: the OpenAPI document as a page; /static: scripts and styles. The pages need no files of other hosts."""

from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse

from streamsvm.api.pages.render import page
from streamsvm.service.errors import ServiceError

router = APIRouter(include_in_schema=False)
_FOLDER = Path(__file__).parent / "static"
_FILES = {path.relative_to(_FOLDER).as_posix(): path for path in _FOLDER.rglob("*") if path.is_file()}


@router.get("/reference", operation_id="showReference")
def show_reference(request: Request) -> HTMLResponse:
    """Show every route of the interface: parameters, body, answers."""
    groups: dict[str, list[dict[str, Any]]] = {}
    document = request.app.openapi()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            fields = _fields(operation, document["components"]["schemas"])
            shown = {**operation, "method": method.upper(), "path": path, "fields": fields}
            groups.setdefault(operation["tags"][0], []).append(shown)
    return page(request, "reference.html", groups=groups)


@router.get("/openapi.json", operation_id="getDocument", include_in_schema=False)
async def get_document(request: Request) -> JSONResponse:
    """Send the OpenAPI document."""
    return JSONResponse(request.app.openapi())


def _fields(operation: dict[str, Any], schemas: dict[str, Any]) -> list[dict[str, Any]]:
    """List the parameters and the fields of a JSON body, each with name, where, required, type and default."""
    fields = [
        _field(item["name"], item["in"], item["required"], item["schema"]) for item in operation.get("parameters", ())
    ]
    for content in operation.get("requestBody", {}).get("content", {}).values():
        schema = content.get("schema", {})
        schema = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
        required = schema.get("required", ())
        fields += [
            _field(name, "body", name in required, field) for name, field in schema.get("properties", {}).items()
        ]
    return fields


def _field(name: str, where: str, required: bool, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "where": where, "required": required, "type": _type(schema), "default": schema.get("default")}


def _type(schema: dict[str, Any]) -> str:
    """Write a type in a few words: integer, "a" or "b", number or null."""
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(f'"{choice}"' for choice in schema["enum"])
    return schema.get("type", "any")


@router.get("/static/{name:path}", operation_id="getStatic")
def get_static(name: str) -> FileResponse:
    """Send a file of the folder `static`; no name reaches other files."""
    if name not in _FILES:
        raise ServiceError("no_such_route", "there is no such file")
    # The browser asks each time, and gets the file only if it has changed.
    return FileResponse(_FILES[name], headers={"Cache-Control": "no-cache"})
