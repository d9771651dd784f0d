"""A model is made of what the coordinator leaves in the directory of its run."""

import numpy as np
import pytest

from streamsvm.service.cluster.cluster_run import cluster_run
from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.service.jobs.outcome.lane_model import lane_outcome
from streamsvm.service.jobs.plan.plan import plan_job
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.manifest import read_manifest
from streamsvm.storage.run.state import open_state
from tests.contracts.problems import make_dataset, random_problem
from tests.service.cluster.coordinating import input_w


@pytest.mark.parametrize("bias", [None, 1.0])
def test_a_model_has_the_weights_of_the_run(tmp_path, monkeypatch, bias):
    monkeypatch.setattr("streamsvm.service.cluster.cluster_run.check_machines", lambda *_: None)
    data, run = make_dataset(tmp_path / "data", *random_problem(60, 9)), tmp_path / "run"
    manifest = read_manifest(data)
    plan = plan_job(parse_spec({"dataset": "data", "machines": 2, "bias": bias}), manifest)
    cluster_run(plan, run, tmp_path, data, "job", Settings.from_environment(), None, None)
    state = open_state(run, plan.n_rows, plan.width, *plan.axes)
    state.w[:] = np.arange(1.0, plan.width + 1.0).reshape(state.w.shape)
    model = lane_outcome(plan, data, run, [{}])
    np.testing.assert_array_equal(model.w, input_w(data, state.w.ravel()[: manifest.width]))
    assert model.w_bias == (0.0 if bias is None else plan.width)
