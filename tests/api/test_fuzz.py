"""Requests made up from the OpenAPI document, right and wrong ones: none is a fault of the service.

Each answer is one that the document has for the route: its status, its type and its body.

FUZZ_REQUESTS says how many in all (make fuzz-api: 5,000); a failure prints the request that made it.
"""

import json
import math
import os
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from streamsvm.api.document import DOCUMENT
from streamsvm.api.requests.repeated import PARTIAL
from tests.api.app import Service, check_problem, some_model

REQUESTS = int(os.environ.get("FUZZ_REQUESTS", "150"))
schemathesis.serializer.alias(PARTIAL, "application/octet-stream")
SCHEMA = schemathesis.openapi.from_path(str(DOCUMENT))
OPERATIONS = [found.ok().definition.raw["operationId"] for found in SCHEMA.get_all_operations()]
# The last not of streams: they are texts in the document, and schemathesis compares each event with that.
CONFORMANCE = [status_code_conformance, content_type_conformance, response_schema_conformance]
ROWS = [b"1 1:1\n-1 2:1\n", b"1,0.5\n2,1\n", b"", b"\x28\xb5\x2f\xfd", b"PAR1"]

# What a case is made to have: mostly names of what is there, half of the time rows, rarely a token.
aims = st.fixed_dictionaries(
    {
        "there": st.sampled_from([True, True, True, False]),
        "rows": st.sampled_from([None, *ROWS]),
        "token": st.sampled_from([False] * 9 + [True]),
    }
)


class Target:
    """A service that always has a dataset, a job that has ended, and its model."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._make()

    def values(self) -> dict[str, str]:
        """Return parameters of paths that exist; make anew what an earlier case has deleted."""
        store = self.service.store
        if not any(record["name"] == "data" for record in store.datasets()) or not store.models():
            self._make()
        return {"name": "data", "job_id": self.job, "model_id": self.model, "model_name": self.model}

    def _make(self) -> None:
        store = self.service.store
        if not any(record["name"] == "data" for record in store.datasets()):
            self.service.add_dataset("data")
        self.model = self.service.add_model(store.dataset("data")["id"], some_model())
        self.job = store.model(self.model)["job_id"]

    def send(self, case: schemathesis.Case, aim: dict[str, Any]) -> httpx.Response:
        """The answer to a case."""
        if aim["there"]:
            case.path_parameters = {**(case.path_parameters or {}), **self._known(case)}
            if isinstance(case.body, dict) and "dataset" in case.body:
                case.body = {**case.body, "dataset": "data"}
        given = case.as_transport_kwargs(base_url="http://localhost")
        headers = {name: text.encode("utf-8", "replace") for name, text in given["headers"].items()}
        if not aim["token"]:
            headers.pop("Authorization", None)
        content = given.get("data", b"") if aim["rows"] is None else aim["rows"]
        if "json" in given:
            content = json.dumps(given["json"]).encode()
        try:
            return self.service.request(
                given["method"], given["url"], params=given["params"], headers=headers, content=_bytes(content)
            )
        except (httpx.InvalidURL, httpx.LocalProtocolError):
            reject()  # no client could send it

    def _known(self, case: schemathesis.Case) -> dict[str, str]:
        known, wanted = self.values(), case.path_parameters or {}
        # A name that is taken would keep uploads from being read.
        return {name: known[name] for name in wanted if name in known and case.method != "PUT"}


def _bytes(content: Any) -> bytes:
    return content if isinstance(content, bytes) else str(content).encode("utf-8", "replace")


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return Target(Service(tmp_path_factory.mktemp("fuzzed"), max_upload_bytes=1 << 20, max_queued_jobs=100))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_request_is_a_fault_of_the_service(target, operation):
    strategy = SCHEMA.find_operation_by_id(operation)
    cases = st.one_of(*(strategy.as_strategy(generation_mode=mode) for mode in GenerationMode))

    @settings(
        max_examples=math.ceil(REQUESTS / len(OPERATIONS)), deadline=None, database=None, print_blob=True,
        derandomize="FUZZ_REQUESTS" not in os.environ, suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(cases, aims)
    def run(case: schemathesis.Case, aim: dict[str, Any]) -> None:
        answer = target.send(case, aim)
        assert answer.status_code < 500, answer.text
        assert answer.headers["x-request-id"]
        assert str(target.service.settings.data_dir) not in answer.text
        if answer.status_code >= 400 and case.method != "HEAD":
            check_problem(answer, answer.json()["code"])
        is_stream = answer.headers.get("content-type", "").startswith("text/event-stream")
        case.validate_response(answer, checks=CONFORMANCE[: 2 if is_stream else 3])

    run()
