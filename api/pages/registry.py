"""/registered-models/{name}: a page of a registered model, its versions side by side, and its aliases."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from streamsvm.api.context import AppContext, Context
from streamsvm.api.pages.render import missing_page, page
from streamsvm.service.errors import ServiceError
from streamsvm.service.models.registry import load_head, model_view
from streamsvm.storage.errors import StorageError

router = APIRouter(include_in_schema=False)

_MOST_SHOWN = 50  # versions, the newest: each is read from its model's file


@router.get("/registered-models/{name}", operation_id="showRegisteredModel")
def show_registered_model(context: Context, request: Request, name: str) -> HTMLResponse:
    """Show the versions of a name with their certificates, and a form that moves its aliases."""
    try:
        registered = context.store.registered_model(name)
    except ServiceError as error:
        return missing_page(request, error)
    shown = registered["versions"][:_MOST_SHOWN]
    versions = [_version(context, registered, each) for each in shown]
    return page(request, "registered.html", registered=registered, versions=versions, base=str(request.base_url))


def _version(context: AppContext, registered: dict[str, Any], version: dict[str, Any]) -> dict[str, Any]:
    """A version with its aliases and the view of its model, {} if that cannot be read."""
    aliases = [each["alias"] for each in registered["aliases"] if each["version"] == version["version"]]
    try:
        model = model_view(context.store.model(version["model_id"]), load_head(context.settings, version["model_id"]))
    except (ServiceError, StorageError):
        model = {}
    return {**version, "aliases": aliases, "model": model}
