"""/reference: the OpenAPI document as a page; /static: scripts and styles. The pages need no files of other hosts."""

import json
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse
from markupsafe import Markup, escape

from streamsvm.api.pages.render import page
from streamsvm.service.errors import ServiceError

router = APIRouter(include_in_schema=False)
_FOLDER = Path(__file__).parent / "static"
_FILES = {path.relative_to(_FOLDER).as_posix(): path for path in _FOLDER.rglob("*") if path.is_file()}


@router.get("/reference", operation_id="showReference")
def show_reference(request: Request) -> HTMLResponse:
    """Show every route of the REST interface: parameters, body, answers, and the fields of all objects."""
    groups: dict[str, list[dict[str, Any]]] = {}
    document = request.app.openapi()
    schemas = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            fields = _fields(operation, schemas)
            shown = {**operation, "method": method.upper(), "path": path, "fields": fields}
            shown["answers"] = [
                each for status, said in operation["responses"].items() for each in _kinds(status, said)
            ]
            groups.setdefault(operation["tags"][0], []).append(shown)
    objects = {name: _object(schemas[name]) for name in sorted(schemas)}
    return page(request, "reference.html", groups=groups, objects=objects)


@router.get("/openapi.json", operation_id="getDocument", include_in_schema=False)
async def get_document(request: Request) -> JSONResponse:
    """Send the OpenAPI document."""
    return JSONResponse(request.app.openapi())


def _fields(operation: dict[str, Any], schemas: dict[str, Any]) -> list[dict[str, Any]]:
    """List the parameters of a route and the fields of its JSON body, as dicts (see `_field`)."""
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


def _kinds(status: str, said: dict[str, Any]) -> list[dict[str, Any]]:
    """List the media types of an answer with this status, each with its content's type; "" if the answer has none."""
    kinds = {kind: _type(content["schema"]) for kind, content in said.get("content", {}).items() if "schema" in content}
    return [{"status": status, "kind": kind, "type": type_} for kind, type_ in (kinds or {"": ""}).items()]


def _object(schema: dict[str, Any]) -> dict[str, Any]:
    """Describe an object: its meaning, its type, and its fields; `always`: every such object has the field."""
    required = schema.get("required", ())
    fields = [
        {"name": name, "type": _type(field), "meaning": field.get("description", ""), "always": name in required}
        for name, field in schema.get("properties", {}).items()
    ]
    return {"meaning": schema.get("description", ""), "type": _type(schema), "fields": fields}


def _field(name: str, where: str, required: bool, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "where": where, "required": required, "type": _type(schema), "default": schema.get("default")}


def _type(schema: dict[str, Any]) -> str:
    """Write a type in a few words, as HTML: integer, "a" or "b", number or null, list of Job; objects are links."""
    several = schema.get("anyOf") or schema.get("oneOf")
    if several:
        return Markup(" or ").join(map(_type, several))
    if "$ref" in schema:
        return Markup('<a href="#{0}">{0}</a>').format(schema["$ref"].rpartition("/")[2])
    if "enum" in schema or "const" in schema:
        choices = schema.get("enum", [schema.get("const")])
        return Markup(" or ").join(escape(json.dumps(choice)) for choice in choices)
    if schema.get("type") == "array":
        parts = schema.get("prefixItems")
        return Markup("list of {}").format(
            Markup(", ").join(map(_type, parts)) if parts else _type(schema.get("items", {}))
        )
    if isinstance(values := schema.get("additionalProperties"), dict):
        return Markup("object, name to {}").format(_type(values))
    kind = schema.get("type", "any")
    return Markup(" or ").join(map(escape, kind)) if isinstance(kind, list) else escape(kind)


@router.get("/static/{name:path}", operation_id="getStatic")
def get_static(name: str) -> FileResponse:
    """Send a file of the folder `static`; no name reaches other files."""
    if name not in _FILES:
        raise ServiceError("no_such_route", "there is no such file")
    # The browser asks each time, and gets the file only if it has changed.
    return FileResponse(_FILES[name], headers={"Cache-Control": "no-cache"})
