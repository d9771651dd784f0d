"""The answer to a request that failed: a problem of RFC 9457."""

from streamsvm.api.answers import Answer, field, sometimes


class Place(Answer):
    """The place of a fault in the data of a request; it has those fields that are known."""

    line: int = sometimes("line, from 1", ge=1)
    column: int = sometimes("column of the line, from 1; of a table, number of the column", ge=1)
    byte: int = sometimes("byte of the decompressed data, from 0; where an upload goes on, as sent", ge=0)
    file: str = sometimes("file of an object store")
    row: int = sometimes("row of JSON, from 1", ge=1)


class Problem(Answer):
    """A problem (RFC 9457)."""

    type: str = field("the code as a URN", example="urn:streamsvm:problem:bad_label")
    title: str = field("the code in words", example="bad label")
    status: int = field("status of the answer", example=422)
    detail: str = field("what is wrong, for people", example="'spam' is not a number")
    code: str = field("the kind of problem: it stays the same from version to version", example="bad_label")
    hint: str = field("what helps, for people; empty if nothing is known to")
    at: Place = field("where the fault is in the data of the request; empty if it is not in them")
    request_id: str = field("id of the request, which the log has, too", example="req_01KB7Z2M5S9W3N8C4T6V0X1Y2Z")
    error: str = field("`detail` again, where clients of the Open Inference Protocol look for it")
