"""References are looked up once after each change of names, however many clients ask; predictors stay in memory."""

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from threading import Barrier, Event

import pytest

from streamsvm.service.errors import ServiceError
from streamsvm.service.models import loaded
from streamsvm.service.models.loaded import load_predictor, loaded_predictor
from streamsvm.service.models.references import References
from streamsvm.service.records.store import Store
from streamsvm.service.settings import Settings
from streamsvm.storage.models.model_file import write_model
from tests.api.app import some_model

CLIENTS = 8


class Counting(Store):
    """Counts look-ups; one waits for `may_go`, and sets `has_read` once it has read."""

    def __init__(self, path):
        super().__init__(path)
        self.looked_up = Counter()
        self.has_read, self.may_go = Event(), Event()
        self.may_go.set()

    def resolve(self, reference):
        self.looked_up[reference] += 1
        found = super().resolve(reference)
        self.has_read.set()
        assert self.may_go.wait(30)
        return found


@pytest.fixture
def store(tmp_path):
    settings = Settings(tmp_path)
    settings.create_directories()
    store = Counting(settings.database)
    store.dataset_id = store.add_dataset("data")
    for model in ("mdl_1", "mdl_2"):
        store.adopt_model(model, "2026-01-01T00:00:00Z")
        store.register_model("churn", model)
    store.move_alias("churn", "champion", 1, "me")
    return store


def find(references: References, reference: str = "churn@champion") -> str:
    return asyncio.run(references.find(reference)).model_id


@pytest.fixture
def other(store, tmp_path):
    """The store as another process has it."""
    return Store(Settings(tmp_path).database)


CHANGES = {
    "move": (lambda other: other.move_alias("churn", "champion", 2, "you"), "churn@champion", "mdl_2"),
    "register": (lambda other: other.register_model("churn", "mdl_3"), "churn", "mdl_3"),
    "delete version": (lambda other: other.delete_version("churn", 2), "churn", "mdl_1"),
    "delete model": (lambda other: other.delete_model("mdl_2"), "churn", "mdl_1"),
    "delete alias": (lambda other: other.delete_alias("churn", "champion", "you"), "churn@champion", "unknown_alias"),
    "delete name": (lambda other: other.delete_registered_model("churn"), "churn:1", "unknown_model"),
    "a job's end": (lambda other: end_job(other), "churn", "mdl_4"),
}


def end_job(store: Store) -> None:
    (dataset,) = store.datasets()
    store.set_dataset_ready(dataset["id"])
    job = store.add_job(dataset["id"], {"dataset": "data", "model_name": "churn"})
    store.claim()
    store.finish(job, "succeeded", models=["mdl_4"], model_id="mdl_4")


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_of_names_by_another_process_is_seen_at_once(store, other, change):
    make, reference, expected = CHANGES[change]
    other.adopt_model("mdl_3", "2026-01-01T00:00:00Z")
    references = References(store, clock=lambda: 0.0)  # nothing gets old
    assert find(references, reference) != expected
    make(other)
    try:
        assert find(references, reference) == expected
    except ServiceError as error:
        assert error.code == expected


def test_other_records_may_change_as_often_as_they_like(store, other):
    references = References(store, clock=lambda: 0.0)
    for number in range(5):
        assert find(references) == "mdl_1"
        other.add_dataset(f"data{number}")
    assert store.looked_up["churn@champion"] == 1


def test_a_change_that_nobody_has_noted_is_seen_after_a_second(store, other, monkeypatch):
    now = [0.0]
    references = References(store, clock=lambda: now[0])
    assert find(references) == "mdl_1"
    monkeypatch.setattr(other.names, "note", lambda: None)  # a crash came between
    other.move_alias("churn", "champion", 2, "you")
    now[0] = 1.0
    assert find(references) == "mdl_2"


def test_a_change_is_seen_where_nothing_can_be_noted(store, other, tmp_path):
    references = References(store, clock=lambda: 0.0)
    assert find(references) == "mdl_1"
    (tmp_path / "names-changed").unlink()
    (tmp_path / "names-changed").mkdir()
    other.move_alias("churn", "champion", 2, "you")
    assert find(references) == "mdl_2"


def test_clients_that_ask_together_share_a_look_up_and_errors_with_it(store):
    references = References(store, clock=lambda: 0.0)

    async def ask(reference: str):
        return await asyncio.gather(*(references.find(reference) for _ in range(50)), return_exceptions=True)

    assert {each.model_id for each in asyncio.run(ask("churn@champion"))} == {"mdl_1"}
    assert {each.code for each in asyncio.run(ask("churn@loser"))} == {"unknown_alias"}
    assert store.looked_up == {"churn@champion": 1, "churn@loser": 1}


def test_an_error_that_nobody_foresaw_reaches_all_who_ask_and_does_not_stay(store, monkeypatch):
    references = References(store, clock=lambda: 0.0)

    def fail() -> tuple[int, ...]:
        raise PermissionError("not yours")

    async def ask():
        return await asyncio.gather(*(references.find("churn@champion") for _ in range(3)), return_exceptions=True)

    with monkeypatch.context() as patch:
        patch.setattr(store, "change", fail)
        assert [type(each) for each in asyncio.run(ask())] == 3 * [PermissionError]
    assert find(references) == "mdl_1"


def test_who_asks_when_a_read_has_just_ended_is_answered_by_the_next(store, monkeypatch):
    """Clients come at any moment of the event loop, while names change all the time."""
    marks = count()
    monkeypatch.setattr(store.names, "mark", lambda: next(marks))
    monkeypatch.setattr(store, "change", lambda: (next(marks),))
    references = References(store, clock=lambda: 0.0)

    async def ask(pauses: int) -> None:
        for _ in range(50):
            assert (await references.find("churn@champion")).model_id == "mdl_1"
            for _ in range(pauses):
                await asyncio.sleep(0)

    async def all_ask() -> None:
        await asyncio.gather(*map(ask, range(20)))

    asyncio.run(all_ask())


def test_who_asks_after_a_move_gets_no_look_up_that_began_before(store, other):
    references = References(store, clock=lambda: 0.0)

    async def ask() -> list[str]:
        store.may_go.clear()
        before = asyncio.ensure_future(references.find("churn@champion"))
        await asyncio.to_thread(store.has_read.wait, 30)
        await asyncio.to_thread(other.move_alias, "churn", "champion", 2, "you")
        after = asyncio.ensure_future(references.find("churn@champion"))
        await asyncio.sleep(0)
        store.may_go.set()
        return [(await each).model_id for each in (before, after)]

    assert asyncio.run(ask()) == ["mdl_1", "mdl_2"]
    assert find(references) == "mdl_2"


def test_a_client_that_leaves_takes_no_answer_from_others(store):
    references = References(store, clock=lambda: 0.0)

    async def ask() -> str:
        store.may_go.clear()
        leaving, staying = (asyncio.ensure_future(references.find("churn@champion")) for _ in range(2))
        await asyncio.to_thread(store.has_read.wait, 30)
        leaving.cancel()
        store.may_go.set()
        return (await staying).model_id

    assert asyncio.run(ask()) == "mdl_1"


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
