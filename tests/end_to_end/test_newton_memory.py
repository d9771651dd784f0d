"""Newton steps on a table that is larger than its memory: the limit is one that the kernel enforces."""

import json
from typing import NamedTuple

import numpy as np
import pytest

from streamsvm.reader.ingest.run import ingest
from tests.end_to_end.cgroup import reason_unusable, run_job

MIB = 1 << 20
N_COLUMNS = 28
GENERATED_AT_ONCE = 100_000


class Case(NamedTuple):
    """limit_bytes: what the job is planned for, its `memory_bytes`, and what its group may have."""

    n_rows: int
    limit_bytes: int


CASES = [
    pytest.param(Case(100_000, 440 * MIB), id="small"),
    pytest.param(Case(5_000_000, 640 * MIB), id="large", marks=pytest.mark.slow),
]


def lines(n_rows):
    """A table whose columns have scales of 1 to 1e6, as LIBSVM text."""
    rng = np.random.default_rng(0)
    scales, plane = 10 ** rng.uniform(0.0, 6.0, N_COLUMNS), rng.standard_normal(N_COLUMNS)
    line = " ".join(["%d", *(f"{column + 1}:%.6g" for column in range(N_COLUMNS))]) + "\n"
    for begin in range(0, n_rows, GENERATED_AT_ONCE):
        X = rng.standard_normal((min(GENERATED_AT_ONCE, n_rows - begin), N_COLUMNS))
        y = np.sign(X @ plane + 2.0 * rng.standard_normal(len(X)))
        table = np.column_stack([y, X * scales])
        yield (line * len(table) % tuple(table.reshape(-1))).encode()


@pytest.mark.parametrize("case", CASES)
def test_they_end_certified_within_the_limit(case, tmp_path):
    if reason := reason_unusable():
        pytest.skip(reason)
    ingest(lines(case.n_rows), tmp_path / "data")
    spec = {"dataset": "data", "bias": 1, "memory_bytes": case.limit_bytes}
    result = run_job("newton", case.limit_bytes, tmp_path / "data", tmp_path, spec)
    passes = [json.loads(line) for line in (tmp_path / "history.ndjson").read_text().splitlines()]
    assert any(each.get("newton") for each in passes)
    assert result["stop_reason"] == "relative_gap"
    assert result["certificate"]["relative_duality_gap"] <= 1e-4
