"""Identifies the client of a request, and checks its token, in the Authorization header or, for the pages, in a cookie.

Any site that a user visits can make the browser send its cookies, and reach loopback addresses. Therefore the cookie
is SameSite=Strict and hidden from scripts, and a request that changes something without an Authorization header must
come from a page of this service.
"""

import asyncio
import ipaddress
import logging
import sqlite3
import time
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPBearer
from starlette.types import Scope

from streamsvm.service.errors import ServiceError
from streamsvm.service.records.tokens import NO_TOKENS, Token, Tokens, allows, hash_of

_TOKEN_NEEDED = (
    "Send Authorization: Bearer TOKEN. On the service's machine streamsvm token ls lists the tokens, "
    "and streamsvm token new NAME makes one."
)

# scope -> operations that need it: of datasets, jobs, models, predictions of files, registered models, service, pages
_OPERATIONS = {
    "read": "listDatasets getDataset sampleDataset listBlocks "
    "listJobs getJob getJobHistory watchJob estimateJob "
    "listModels getModel downloadModel predict evaluate "
    "listPredictions getPrediction "
    "listRegisteredModels getRegisteredModel getModelAlias "
    "getInfo getMetrics getDocument "
    "showHome showDataset compareJobs showJob showModel showRegisteredModel showPredictions showPrediction "
    "showQueue showReference",
    "submit": "putDataset getUpload continueUpload cancelUpload appendRows "
    "submitJob stopJob resumeJob cancelJob "
    "submitPrediction cancelPrediction "
    "registerModel setThreshold moveModelAlias deleteModelAlias",
    "admin": "removeBlock deleteDataset deleteJob deleteModel deletePrediction deleteModelVersion "
    "deleteRegisteredModel",
}
SCOPES = {operation: scope for scope, operations in _OPERATIONS.items() for operation in operations.split()}

# Routes that need no token: login, health, static files.
OPEN = {"showLogin", "login", "logout", "serverLive", "serverReady", "getStatic"}


COOKIE = "streamsvm_token"
_TABLE_SECONDS, _USE_SECONDS = 1.0, 60.0
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_log = logging.getLogger("streamsvm.api")
_IN_DOCUMENT = Depends(HTTPBearer(scheme_name="token", description="streamsvm token new", auto_error=False))
# A key of the ASGI scope: the name of the token that came with the request.
TOKEN = "streamsvm.token"
# A household or firm is given a whole network of IPv6 addresses.
_NETWORK_BITS = 64


class Access:
    """A cached table of tokens, read again when it is a second old, or for an unknown token if tokens have changed.

    The last use of a token is recorded at most once a minute.
    """

    def __init__(self, tokens: Tokens, required: bool) -> None:
        self._tokens = tokens
        self._required = required
        self._table: dict[str, Token] = {}
        self._expires = 0.0
        self._change: tuple[int, ...] | None = None
        self._reading: asyncio.Task | None = None
        self._noted: dict[str, float] = {}  # hashes of tokens, and when their use was last noted
        self._noting: set[asyncio.Future[None]] = set()

    async def token_of(self, text: str) -> Token | None:
        """Return the token with this text, or None if no token has it. Raises ServiceError token_expired."""
        await self._refresh()
        hashed = hash_of(text)
        for _ in range(2):  # the first read may be one that began before the token was made
            if hashed not in self._table and self._tokens.change() != self._change:
                await self._read_again()
        token = self._table.get(hashed)
        if token is None:
            return None
        if token.has_expired:
            hint = "On the service's machine streamsvm token revoke NAME and token new NAME make another."
            raise ServiceError("token_expired", f"the token expired at {token.expires_at}", hint)
        if time.monotonic() - self._noted.get(hashed, -_USE_SECONDS) >= _USE_SECONDS:
            self._noted[hashed] = time.monotonic()
            noting = asyncio.ensure_future(run_in_threadpool(self._note_use, token.name))
            self._noting.add(noting)
            noting.add_done_callback(self._noting.discard)
        return token

    def _note_use(self, name: str) -> None:
        try:
            self._tokens.note_use(name)
        except sqlite3.Error:
            _log.exception("the last use of the token %s could not be noted", name)

    async def is_open(self) -> bool:
        """Whether requests need no token: no token has ever existed, and only this machine can reach the service."""
        return not self._required and not self._tokens.are_needed()

    async def has_tokens(self) -> bool:
        """Whether there is any token."""
        await self._refresh()
        return bool(self._table)

    async def _refresh(self) -> None:
        if time.monotonic() >= self._expires:
            await self._read_again()

    async def _read_again(self) -> None:
        # All requests that come meanwhile await one read. The shield keeps it going when one of them is cancelled.
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(self._read())
        await asyncio.shield(self._reading)

    async def _read(self) -> None:
        change = self._tokens.change()
        self._table = await run_in_threadpool(self._tokens.table)
        self._change, self._expires = change, time.monotonic() + _TABLE_SECONDS


async def require_scope(request: Request, _: Annotated[object, _IN_DOCUMENT] = None) -> None:
    """Raise ServiceError scope_missing, or as `scope_of_request`, unless the client may call the route."""
    route = request.scope["route"]
    operation = route.operation_id or route.name
    if operation in OPEN:
        return
    scope = await scope_of_request(request, request.app.state.access)
    # A route that SCOPES does not list is for the owner alone.
    needed = SCOPES.get(operation, "admin")
    if not allows(scope, needed):
        hint = f"Use a token with this scope: streamsvm token new NAME --scope {needed} makes one."
        raise ServiceError("scope_missing", f"the token's scope is {scope}, this needs {needed}", hint)


async def scope_of_request(request: Request, access: Access) -> str:
    """Return the scope of the client of a request; write the name of the client's token into `request.scope[TOKEN]`.

    Raises ServiceError token_missing, token_invalid, token_expired, cross_site.
    """
    header = request.headers.get("authorization")
    if header is not None:
        scheme, _, text = header.partition(" ")
        token = await access.token_of(text.strip()) if scheme.lower() == "bearer" else None
        if token is None:
            raise ServiceError("token_invalid", "this is no valid token", await _hint(access))
        return _note(request, token)
    cookie = request.cookies.get(COOKIE)
    token = await access.token_of(cookie) if cookie else None
    refuse_other_sites(request, must_show=token is not None)
    if token is not None:
        return _note(request, token)
    if not await access.is_open():
        raise ServiceError("token_missing", "this needs a token", await _hint(access))
    return "admin"


def _note(request: Request, token: Token) -> str:
    request.scope[TOKEN] = token.name
    return token.scope


async def _hint(access: Access) -> str:
    return _TOKEN_NEEDED if await access.has_tokens() else NO_TOKENS


def refuse_other_sites(request: Request, must_show: bool) -> None:
    """Raise ServiceError cross_site if a page of another site asks for a change.

    must_show  also refuse requests that do not name the site they come from: browsers name it, programs need not
    """
    if request.method in _SAFE_METHODS:
        return
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        is_own = site in ("same-origin", "none")
    elif origin is not None:
        is_own = urlsplit(origin).netloc == request.headers.get("host")
    else:
        is_own = not must_show
    if not is_own:
        raise ServiceError("cross_site", "a page of another site asks for this", "Send a token as Authorization.")


def client_of(scope: Scope) -> str:
    """Return the token's name, or the network of the address if there is no token."""
    token = scope.get(TOKEN)
    return f"token {token}" if token else network_of(address_of(scope))


def address_of(scope: Scope) -> str:
    """Return the client's address from the connection or a trusted proxy; empty if that is not an IP address."""
    host = (scope.get("client") or ("",))[0]
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return ""


def network_of(address: str) -> str:
    """Return an IPv4 address unchanged, and the /64 network of an IPv6 address."""
    if ":" not in address:
        return address
    return str(ipaddress.ip_network((address.partition("%")[0], _NETWORK_BITS), strict=False))
