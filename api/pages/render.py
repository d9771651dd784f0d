"""Renders templates, and formats the numbers in them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2
from fastapi import Request
from fastapi.responses import HTMLResponse

from streamsvm.api.access.auth import COOKIE
from streamsvm.service.datasets.views import input_words
from streamsvm.service.jobs.fields.from_text import format_size
from streamsvm.service.jobs.fields.scoring import FIGURE_OF
from streamsvm.service.jobs.progress.states import ESTIMATES, gap_of
from streamsvm.service.models.predicting.answers import shown_label
from streamsvm.service.terminal.display import duration, scored
from streamsvm.storage.run.figures import FIGURES

_UNKNOWN = "\N{EN DASH}"
_MOST_LISTED = 5
_LONG = 1e6  # from here on numbers are rounded to powers of ten
_FOLDER = Path(__file__).parent
# Allows scripts and styles from files of this service only, and forbids other sites to show the page in a frame.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Render a template of the folder `templates` with these values, for a browser that may be logged in."""
    text = _ENVIRONMENT.get_template(template).render(values, logged_in=COOKIE in request.cookies)
    return HTMLResponse(text, status, headers=_HEADERS)


def missing_page(request: Request, error: Any) -> HTMLResponse:
    """Make the response 404: a page with the error's message."""
    return page(request, "error.html", 404, error=error)


def _is_unknown(value: Any) -> bool:
    # Records of older versions have fewer fields.
    return value is None or isinstance(value, jinja2.Undefined)


def _or_dash(write: Callable[[Any], str]) -> Callable[[Any], str]:
    """Return a filter that writes a value by `write`, and one that is not known as a dash."""
    return lambda value: _UNKNOWN if _is_unknown(value) else write(value)


def _short(number: Any, digits: int = 3) -> str:
    """Write a number in `digits` digits; for a list, all numbers, or if it is long its length, least and largest."""
    if isinstance(number, list):
        if len(number) > _MOST_LISTED:
            return f"{len(number)}: {_short(min(number), digits)} to {_short(max(number), digits)}"
        return ", ".join(_short(each, digits) for each in number)
    if _is_unknown(number):
        return _UNKNOWN
    if not isinstance(number, int | float):
        return str(number)
    text = f"{number:.{digits}g}"
    # People read 1,000 more easily than 1e+03.
    return f"{number:,.0f}" if "e+" in text and abs(number) < _LONG else text


def _field(value: Any) -> str:
    """Write the value of a job's field as in JSON, but words without quotes and numbers with commas."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
    return _UNKNOWN if _is_unknown(value) else value if isinstance(value, str) else json.dumps(value)


def flat(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a job in one dict with the options of its solver."""
    general = {name: value for name, value in spec.items() if name != "solver_options"}
    return general | spec.get("solver_options", {})


def _place(at: dict[str, Any]) -> str:
    """Write the file and line of a fault, or the one of them that is known."""
    parts = [*([at["file"]] if "file" in at else []), *([f"line {at['line']}"] if "line" in at else [])]
    return f"{', '.join(parts)}: " if parts else ""


_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(_FOLDER / "templates"),
    autoescape=True,
    undefined=jinja2.ChainableUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.globals |= {"FIGURES": FIGURES, "FIGURE_OF": FIGURE_OF, "ESTIMATES": ESTIMATES}
_ENVIRONMENT.filters.update(short=_short, place=_place, label=shown_label, field=_field, flat=flat, gap=gap_of)
_ENVIRONMENT.filters.update(
    count=_or_dash("{:,}".format), size=_or_dash(format_size), duration=_or_dash(duration),
    time=_or_dash(lambda at: f"{at[:10]} {at[11:16]}"),  # to the minute; the title attribute has the seconds
    # Such as "accuracy 0.857 ± 0.012".
    scored=_or_dash(lambda score: scored(score).replace("_", " ").replace("+-", "\N{PLUS-MINUS SIGN}")),
    in_words=input_words,
)  # fmt: skip
