"""Memory follows from the features that occur: a thousand of them, the last one the largest that there can be."""

import json
from dataclasses import replace

import numpy as np
import pytest

from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.service.jobs.lanes.runner import lane_outcome
from streamsvm.service.jobs.plan.plan import plan_job
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.models.model_file import read_model, write_model
from tests.end_to_end.cgroup import reason_unusable, run_in, run_job

LIMIT = 400 << 20
LAST = (1 << 27) - 1
N_FEATURES, N_ROWS = 1000, 2000
SPEC = {"dataset": "wide", "bias": 1.0, "cache_bytes": 16 << 20, "max_passes": 30}


def wide_text() -> bytes:
    rng = np.random.default_rng(0)
    features = np.append(np.sort(rng.choice(LAST - 1, N_FEATURES - 1, replace=False)) + 1, LAST)
    w = rng.standard_normal(N_FEATURES)
    lines = []
    for _ in range(N_ROWS):
        own, values = np.sort(rng.choice(N_FEATURES, 20, replace=False)), rng.standard_normal(20).round(3)
        pairs = " ".join(f"{f}:{v}" for f, v in zip(features[own], values, strict=True))
        lines.append(f"{1 if values @ w[own] > 0 else -1} {pairs}")
    return "\n".join(lines).encode() + b"\n"


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Has `rows`, read in as `dataset`, and the `model` of a job on it; each was made within the limit."""
    if reason := reason_unusable():
        pytest.skip(reason)
    made = tmp_path_factory.mktemp("wide")
    (made / "rows").write_bytes(wide_text())
    with (made / "rows").open("rb") as rows:
        done = run_in("reader", LIMIT, "streamsvm.reader.ingest.run", str(made / "dataset"), stdin=rows)
    assert done.returncode == 0, done
    result = run_job("job", LIMIT, made / "dataset", made, SPEC)
    plan = plan_job(parse_spec(SPEC), Dataset(made / "dataset").manifest)
    model = lane_outcome(plan, made / "dataset", made / "run", [result])
    write_model(made / "model", replace(model, labels=plan.model_labels, about={"loss": "hinge", "C": 1.0}))
    return made


def test_a_model_has_the_weights_of_what_occurs(directory):
    model = read_model(directory / "model")
    assert (model.n_features, model.w.shape) == (LAST, (N_FEATURES,))
    size = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file() and path.parent.name == "model")
    assert size < 64 << 10


def test_a_model_is_described_applied_and_given_out(directory):
    done = run_in("model", LIMIT, "tests.end_to_end.wide_model", str(directory / "model"), str(directory / "rows"))
    assert done.returncode == 0, done
    sizes = json.loads(done.stdout)
    assert {"npz", "onnx", "liblinear"} <= sizes.keys()
    assert max(size for name, size in sizes.items() if name != "liblinear") < 64 << 10


def test_a_model_is_evaluated(directory):
    paths = [str(directory / name) for name in ("model", "dataset")]
    done = run_in("evaluation", LIMIT, "streamsvm.service.models.evaluation.evaluation", *paths)
    assert done.returncode == 0, done
    assert json.loads(done.stdout)["accuracy"] > 0.8
