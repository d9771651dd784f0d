"""/login: a form that puts a person's token into a cookie, for the pages."""

from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from streamsvm.api.access.auth import COOKIE, TOKEN, refuse_other_sites
from streamsvm.api.pages.render import page
from streamsvm.api.requests.body import stream
from streamsvm.service.errors import ServiceError
from streamsvm.service.records.tokens import NO_TOKENS

router = APIRouter(include_in_schema=False)

_MOST_BYTES = 4096
Next = Annotated[str, Query(alias="next", max_length=2000)]


async def own_pages_only(request: Request) -> None:
    """Refuse requests of other sites, which could log their visitors in or out here."""
    refuse_other_sites(request, must_show=True)


@router.get("/login", operation_id="showLogin")
def show_login(request: Request, target: Next = "/") -> HTMLResponse:
    """Show the form for logging in."""
    return page(request, "login.html", next=_local(target))


@router.post("/login", operation_id="login", dependencies=[Depends(own_pages_only)], response_model=None)
async def login(request: Request) -> HTMLResponse | RedirectResponse:
    """Put a valid token into a cookie, and redirect to the page that was asked for.

    Wrong tokens are not counted: nobody guesses 256 random bits, and several people may share an address.
    """
    text = b"".join([chunk async for chunk in stream(request, _MOST_BYTES)]).decode(errors="replace")
    form = parse_qs(text)
    token, target = form.get("token", [""])[0].strip(), form.get("next", ["/"])[0]
    access = request.app.state.access
    known, fault = None, "This is no valid token." if await access.has_tokens() else NO_TOKENS
    try:
        known = await access.token_of(token)
    except ServiceError as error:
        fault = f"{error.message.capitalize()}."
    if known is None:
        return page(request, "login.html", 401, fault=fault, next=_local(target))
    request.scope[TOKEN] = known.name
    to_page = RedirectResponse(_local(target), 303)
    is_https = request.url.scheme == "https"
    to_page.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=is_https)
    return to_page


@router.post("/logout", operation_id="logout", dependencies=[Depends(own_pages_only)])
def logout() -> RedirectResponse:
    """Delete the cookie and redirect to the form."""
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer


def _local(target: str) -> str:
    """Return `target` if it is a path of this service, else /."""
    return target if target.startswith("/") and not target.startswith(("//", "/\\")) else "/"
