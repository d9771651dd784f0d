"""Makes the response of a prediction, in a type that the client accepts: JSON, lines of JSON, CSV or text."""

from urllib.parse import quote

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from streamsvm.service.models.predicting.answers import ANSWERS, Predicted, first_names

_FEW_ROWS = 256


def prediction_response(request: Request, predicted: Predicted) -> Response:
    """Make the response, in JSON unless the request accepts another type; it closes `predicted` once it was sent."""
    accepted = request.headers.get("accept", "")
    kind = next((kind for kind in ANSWERS if kind in accepted), "application/json")
    if predicted.rows > _FEW_ROWS:
        return _ClosingResponse(predicted, kind)
    try:
        return Response(b"".join(ANSWERS[kind](predicted)), media_type=kind, headers=_headers(predicted))
    finally:
        predicted.close()


class _ClosingResponse(StreamingResponse):
    """Streams predictions, and removes them from disk when it ends, sent or not."""

    def __init__(self, predicted: Predicted, kind: str) -> None:
        self._predicted = predicted
        super().__init__(ANSWERS[kind](predicted), media_type=kind, headers=_headers(predicted))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._predicted.close()


def _headers(predicted: Predicted) -> dict[str, str]:
    headers = {"Rows": str(predicted.rows), "Unknown-Features": str(predicted.unknown_features)}
    if predicted.unknown_columns:
        names = ", ".join(quote(name, safe=" ") for name in first_names(predicted.unknown_columns))
        headers |= {"Unknown-Columns": str(len(predicted.unknown_columns)), "Unknown-Column-Names": names}
    return headers
