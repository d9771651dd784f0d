"""What is shown of a job that runs."""

import shutil

import pytest

from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.service.jobs.progress.views import job_view
from streamsvm.service.settings import Settings
from streamsvm.storage.blocks.manifest import read_manifest
from tests.contracts.problems import make_dataset, random_problem, smallest_cache
from tests.training import write_run

RECORD = {
    "id": "job_A", "dataset_id": "one", "state": "running", "attempt": 1, "transitions": [], "result": None,
    **dict.fromkeys(("created_at", "started_at", "finished_at", "progress", "failure", "model_id", "requested")),
    "continues": None,
}  # fmt: skip


@pytest.fixture
def settings(tmp_path):
    """With a dataset, `one`."""
    settings = Settings(tmp_path)
    settings.datasets.mkdir()
    make_dataset(settings.datasets / "one", *random_problem())
    return settings


def shown(settings, **fields) -> dict:
    """Of a run that was laid out for a job with these fields."""
    cache_bytes = 3 * smallest_cache()
    write_run(settings.jobs / RECORD["id"] / "run", settings.datasets / "one", cache_bytes, **fields)
    (settings.jobs / RECORD["id"] / "history.ndjson").touch()
    return job_view(settings, {**RECORD, "spec": parse_spec({"dataset": "d", **fields}).model_dump()})


def test_blocks_of_a_pass_are_those_the_reader_was_told(settings):
    assert shown(settings, solver="bm", solver_options={"n_blocks": 7})["progress"]["blocks"] == 7


def test_or_those_of_the_dataset(settings):
    assert shown(settings)["progress"]["blocks"] == len(read_manifest(settings.datasets / "one").blocks)


def test_none_are_known_while_the_dataset_is_being_read_in(settings):
    shown(settings)
    shutil.rmtree(settings.datasets / "one")
    found = job_view(settings, {**RECORD, "spec": parse_spec({"dataset": "d"}).model_dump()})
    assert found["progress"]["blocks"] is None
