"""/v1/registered-models: names of models, their versions, and aliases that point at a version."""

import re
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response

from streamsvm.api.access.auth import client_of
from streamsvm.api.answers import answers, body_of
from streamsvm.api.context import AppContext, Context
from streamsvm.api.requests.body import JsonObject, only_field
from streamsvm.api.requests.repeated import REPLAYED, OnceRegistered
from streamsvm.service.errors import ServiceError
from streamsvm.service.models.loaded import load_predictor, loaded_predictor
from streamsvm.service.records.table import RequestKey
from streamsvm.storage.errors import StorageError

router = APIRouter(prefix="/v1", tags=["registered models"])

_ALIAS = "/registered-models/{name}/aliases/{alias}"
_ALIAS_ANSWER = answers("Alias", headers_={"ETag": "of the alias, for `If-Match`"})


@router.post(
    "/models/{model_id}/register",
    status_code=201,
    operation_id="registerModel",
    openapi_extra=body_of("RegistrationRequest"),
    responses=answers("RegisteredVersion", 201, "The version", headers_=REPLAYED),
)
def register_model(
    context: Context, model_id: str, fields: JsonObject, response: Response, once: OnceRegistered
) -> dict[str, Any]:
    """Make a model the next version of a name. A model that has the name already keeps its version."""
    name = only_field(fields, "name", str)

    def register(key: RequestKey | None) -> str:
        made = context.store.register_model(name, context.store.resolve(model_id).model_id, key)
        return f"{made['name']}:{made['version']}"

    return once.answer(response, fields, register)


@router.get("/registered-models", operation_id="listRegisteredModels", responses=answers("RegisteredModels"))
def list_registered_models(context: Context) -> dict[str, Any]:
    """All registered models by name, with the latest version and the aliases of each."""
    return {"registered_models": context.store.registered_models()}


@router.get("/registered-models/{name}", operation_id="getRegisteredModel", responses=answers("RegisteredModel"))
def get_registered_model(context: Context, name: str) -> dict[str, Any]:
    """A registered model: its versions, its aliases, and who moved them."""
    return context.store.registered_model(name)


@router.delete("/registered-models/{name}", status_code=204, operation_id="deleteRegisteredModel")
def delete_registered_model(context: Context, name: str) -> Response:
    """Forget a name, its versions and aliases; the models stay."""
    context.store.delete_registered_model(name)
    return Response(status_code=204)


@router.delete("/registered-models/{name}/versions/{version}", status_code=204, operation_id="deleteModelVersion")
def delete_version(context: Context, name: str, version: int) -> Response:
    """Forget a version that no alias points at; the model stays, and no other gets its number."""
    context.store.delete_version(name, version)
    return Response(status_code=204)


@router.get(_ALIAS, operation_id="getModelAlias", responses=_ALIAS_ANSWER)
def get_alias(context: Context, name: str, alias: str, response: Response) -> dict[str, Any]:
    """Where an alias points, who moved it there, and an ETag for `If-Match`."""
    return _shown(context.store.alias(name, alias), response)


@router.put(_ALIAS, operation_id="moveModelAlias", openapi_extra=body_of("AliasRequest"), responses=_ALIAS_ANSWER)
def move_alias(
    context: Context,
    request: Request,
    name: str,
    alias: str,
    fields: JsonObject,
    response: Response,
    if_match: Annotated[str | None, Header(description="the ETag that the alias has: else nothing is moved")] = None,
    if_none_match: Annotated[str | None, Header(description="`*`: only if there is no such alias yet")] = None,
) -> dict[str, Any]:
    """Point an alias at a version: predictions that begin from now on are made by that."""
    version = only_field(fields, "version", int)
    _make_ready(context, name, alias, version)
    moved = context.store.move_alias(
        name, alias, version, client_of(request.scope), _expected(if_match, is_new=if_none_match == "*")
    )
    return _shown(moved, response)


@router.delete(_ALIAS, status_code=204, operation_id="deleteModelAlias")
def delete_alias(
    context: Context, request: Request, name: str, alias: str, if_match: Annotated[str | None, Header()] = None
) -> Response:
    """Remove an alias; the version that it points at stays."""
    context.store.delete_alias(name, alias, client_of(request.scope), _expected(if_match))
    return Response(status_code=204)


def _make_ready(context: AppContext, name: str, alias: str, version: int) -> None:
    """Read a version's model into memory if clients predict by the alias, so that they need not wait for it."""
    before = context.references.known(f"{name}@{alias}")
    if before is None or loaded_predictor(context.settings, before.model_id) is None:
        return
    with suppress(ServiceError, StorageError, OSError):  # moving the alias, or predicting, reports the error
        load_predictor(context.settings, context.store.resolve(f"{name}:{version}").model_id)


def _expected(if_match: str | None, is_new: bool = False) -> int | None:
    """Return the newest move that the headers expect; 0: the alias must not exist, -1: no move matches, None: any."""
    if is_new:
        return 0
    if if_match is None or if_match.strip() == "*":
        return None
    tag = if_match.strip().strip('"')
    return int(tag) if re.fullmatch("[1-9][0-9]{0,17}", tag) else -1


def _shown(alias: dict[str, Any], response: Response) -> dict[str, Any]:
    response.headers["ETag"] = f'"{alias.pop("move")}"'
    return alias
