"""/login: a form that puts a person's token into a cookie, for the pages."""

import html
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from streamsvm.api.access.auth import COOKIE, TOKEN, refuse_other_sites
from streamsvm.api.requests.body import stream
from streamsvm.service.errors import ServiceError
from streamsvm.service.records.tokens import NO_TOKENS

router = APIRouter(include_in_schema=False)

_MOST_BYTES = 4096
_SECURITY = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "Cache-Control": "no-store",
}
# The colours of the pages.
_STYLE = """
:root { color-scheme: light dark; --ground: #f5f6f9; --card: #fff; --ink: #1b2233; --line: #dfe3ec; --accent: #2457d6;
--on-accent: #fff; --bad: #b42318; font: 15px/1.5 system-ui, sans-serif }
@media (prefers-color-scheme: dark) { :root { --ground: #10141d; --card: #191f2b; --ink: #e6eaf3; --line: #2c3444;
--accent: #6b95ff; --on-accent: #0c1220; --bad: #ff9b90 } }
body { margin: 0; padding: 1rem; background: var(--ground); color: var(--ink) }
form { box-sizing: border-box; max-width: 24rem; margin: 18vh auto 0; padding: 1.4rem; background: var(--card);
border: 1px solid var(--line); border-radius: 10px }
h1 { font-size: 1.35rem; margin: 0 0 .6rem } .fault { color: var(--bad) } .fault:empty { display: none }
input, button { box-sizing: border-box; width: 100%; margin: .4rem 0; padding: .5rem .7rem; font: inherit;
color: inherit; background: var(--ground); border: 1px solid var(--line); border-radius: 7px }
button { background: var(--accent); color: var(--on-accent); border-color: var(--accent); cursor: pointer }
"""
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>StreamSVM: log in</title>
<style>{style}</style>
<main><form method="post" action="/login"><h1>StreamSVM</h1><p class="fault" role="alert">{message}</p>
<label>Token <input type="password" name="token" required autofocus autocomplete="current-password"></label>
<input type="hidden" name="next" value="{next}"><button>Log in</button></form></main></html>"""

Next = Annotated[str, Query(alias="next", max_length=2000)]


async def own_pages_only(request: Request) -> None:
    """Refuse requests of other sites, which could log their visitors in or out here."""
    refuse_other_sites(request, must_show=True)


@router.get("/login", operation_id="showLogin")
def show_login(target: Next = "/") -> HTMLResponse:
    """Show the form for logging in."""
    return _page("", target)


@router.post("/login", operation_id="login", dependencies=[Depends(own_pages_only)], response_model=None)
async def login(request: Request) -> HTMLResponse | RedirectResponse:
    """Put a valid token into a cookie, and redirect to the page that was asked for.

    Wrong tokens are not counted: nobody guesses 256 random bits, and several people may share an address.
    """
    text = b"".join([chunk async for chunk in stream(request, _MOST_BYTES)]).decode(errors="replace")
    form = parse_qs(text)
    token, target = form.get("token", [""])[0].strip(), form.get("next", ["/"])[0]
    access = request.app.state.access
    try:
        known = await access.token_of(token)
    except ServiceError as error:
        return _page(f"{error.message.capitalize()}.", target, 401)
    if known is None:
        return _page("This is no valid token." if await access.has_tokens() else NO_TOKENS, target, 401)
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


def _page(message: str, target: str, status: int = 200) -> HTMLResponse:
    text = _PAGE.format(style=_STYLE, message=html.escape(message), next=html.escape(_local(target)))
    return HTMLResponse(text, status, headers=_SECURITY)


def _local(target: str) -> str:
    """Return `target` if it is a path of this service, else /."""
    return target if target.startswith("/") and not target.startswith(("//", "/\\")) else "/"
