"""Predictions as the client accepts them: JSON, a line for each row, CSV or text."""

from urllib.parse import quote

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from streamsvm.service.models.predicting.prediction import ANSWERS, Predicted, first_names

_FEW_ROWS = 256


def prediction_response(request: Request, found: Predicted) -> Response:
    """The response that the request accepts, JSON if it names none; it closes what was found once it was sent."""
    accepted = request.headers.get("accept", "")
    kind = next((kind for kind in ANSWERS if kind in accepted), "application/json")
    if found.rows > _FEW_ROWS:
        return _KeptResponse(found, kind)
    try:
        return Response(b"".join(ANSWERS[kind](found)), media_type=kind, headers=_headers(found))
    finally:
        found.close()


class _KeptResponse(StreamingResponse):
    """Predictions, of which nothing is kept once they were sent, or were not."""

    def __init__(self, found: Predicted, kind: str) -> None:
        self._found = found
        super().__init__(ANSWERS[kind](found), media_type=kind, headers=_headers(found))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._found.close()


def _headers(found: Predicted) -> dict[str, str]:
    headers = {"Rows": str(found.rows), "Unknown-Features": str(found.unknown_features)}
    if found.unknown_columns:
        names = ", ".join(quote(name, safe=" ") for name in first_names(found.unknown_columns))
        headers |= {"Unknown-Columns": str(len(found.unknown_columns)), "Unknown-Column-Names": names}
    return headers
