"""/reference: the OpenAPI document as a page, without files of other hosts."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse

from streamsvm.api.access.auth import COOKIE
from streamsvm.api.pages.render import page

router = APIRouter(include_in_schema=False)


@router.get("/reference", operation_id="showReference")
def show_reference(request: Request) -> HTMLResponse:
    """Show every route of the interface: parameters, body, answers."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, methods in request.app.openapi()["paths"].items():
        for method, operation in methods.items():
            shown = {**operation, "method": method.upper(), "path": path, "fields": _fields(operation)}
            groups.setdefault(operation["tags"][0], []).append(shown)
    return page("reference.html", groups=groups, logged_in=COOKIE in request.cookies)


@router.get("/openapi.json", operation_id="getDocument", include_in_schema=False)
async def get_document(request: Request) -> JSONResponse:
    """Send the OpenAPI document."""
    return JSONResponse(request.app.openapi())


def _fields(operation: dict[str, Any]) -> list[dict[str, Any]]:
    """List the parameters and the fields of a JSON body, each with name, where, required, type and default."""
    fields = [
        _field(item["name"], item["in"], item["required"], item["schema"]) for item in operation.get("parameters", ())
    ]
    for content in operation.get("requestBody", {}).get("content", {}).values():
        schema = content.get("schema", {})
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
