"""The predictors of models in memory."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

import pytest

from streamsvm.service.models import loaded
from streamsvm.service.models.loaded import load_predictor, loaded_predictor
from streamsvm.service.settings import Settings
from streamsvm.storage.models.model_file import write_model
from tests.api.app import some_model

CLIENTS = 8


@pytest.fixture
def reads(monkeypatch):
    """Names of directories of models that are read; none is read before all clients have found it missing."""
    found, together = [], Barrier(CLIENTS)

    def read(directory, read=loaded.read_model):
        found.append(directory.name)
        return read(directory)

    def look(settings, model_id):
        together.wait(30)
        return loaded_predictor(settings, model_id)

    monkeypatch.setattr(loaded, "read_model", read)
    monkeypatch.setattr(loaded, "loaded_predictor", look)
    return found


def load_by_all(settings: Settings) -> list[object]:
    """The predictor, or error, that each of the clients gets that want the same model at the same time."""
    with ThreadPoolExecutor(CLIENTS) as pool:
        waiting = [pool.submit(partial(load_predictor, settings, "mdl_1")) for _ in range(CLIENTS)]
    return [each.exception() or each.result() for each in waiting]


def test_a_model_that_many_want_is_read_once(tmp_path, reads):
    settings = Settings(tmp_path)
    settings.create_directories()
    write_model(settings.models / "mdl_1", some_model())
    assert len({id(each) for each in load_by_all(settings)}) == 1
    assert reads == ["mdl_1"]


def test_a_model_that_cannot_be_read_is_read_again(tmp_path, reads):
    settings = Settings(tmp_path)
    settings.create_directories()
    assert all(isinstance(each, Exception) for each in load_by_all(settings))
    write_model(settings.models / "mdl_1", some_model())
    assert not any(isinstance(each, Exception) for each in load_by_all(settings))
