"""A job that gives up a faster way says so once: in view, history, page and log, on the command line."""

import html
import io
import json
from collections import Counter
from contextlib import redirect_stdout

import httpx
import pytest

from streamsvm.service.cli import main
from streamsvm.service.terminal.spelling import in_dashes
from streamsvm.storage.run.slowdowns import SLOWDOWNS
from tests.end_to_end.service import Service, running

# Threads that share no work, and a cache for a part of the rows that no disk helps.
SLOW = {"dataset": "data", "pace": "fixed", "threads": 2, "cache_bytes": 1 << 17, "tolerance": None, "max_passes": 3}
CODES = ["cache_too_small", "cache_on_disk", "one_thread"]


@pytest.fixture(scope="module")
def slow(tmp_path_factory, text):
    """A service that has no place in memory, and a job that has ended there."""
    service = Service(tmp_path_factory.mktemp("service"))
    service.cache_dir.rmdir()
    with running(service):
        service.upload("data", text)
        yield service, service.wait_until_ended(service.submit(**SLOW))


def test_its_view_and_its_record_have_each_once(slow):
    _, job = slow
    found = [warning for warning in job["warnings"] if warning["code"] in SLOWDOWNS]
    assert [each["code"] for each in found] == CODES
    assert all((each["message"], each["hint"]) == SLOWDOWNS[each["code"]] for each in found)
    assert [len(step.get("slowdowns", ())) for step in job["transitions"]] == [0, 3, 0]


def test_its_history_has_them_in_the_pass_they_were_met(slow):
    service, job = slow
    passes = service.get(f"/v1/jobs/{job['id']}/history")["passes"]
    assert [[each["code"] for each in one.get("slowdowns", ())] for one in passes] == [CODES, [], []]
    table = httpx.get(f"{service.url}/v1/jobs/{job['id']}/history?format=csv").text
    assert "slowdowns" not in table and len(table.splitlines()) == 4


def test_its_page_shows_them(slow):
    service, job = slow
    page = html.unescape(httpx.get(f"{service.url}/jobs/{job['id']}").text)
    for code in CODES:
        assert page.count(f'data-code="{code}"') == 1 and SLOWDOWNS[code].hint in page


@pytest.mark.parametrize("command", ["show", "watch"])
def test_commands_print_them(slow, command):
    service, job = slow
    said = io.StringIO()
    with redirect_stdout(said):
        main(["job", command, job["id"], "--url", service.url, *(["--json"] if command == "watch" else [])])
    for code in CODES:
        hint = SLOWDOWNS[code].hint  # JSON names fields, text the options of the command line
        assert said.getvalue().count(in_dashes(hint) if command == "show" else hint) == 1


def test_the_log_names_them_once(slow):
    service, _ = slow
    log = (service.data_dir.parent / "log").read_text()
    assert all(log.count(f"{code}: ") == 1 for code in CODES)


@pytest.mark.parametrize("is_json", [False, True])
def test_training_of_a_file_prints_them_once(run_here, monkeypatch, tmp_path, text, is_json):
    (tmp_path / "train.svm").write_bytes(text)
    options = ("--pace", "fixed", "--threads", "2", "--cache", "128KiB", "--tolerance", "none", "--max-passes", "3")
    words = ("train", tmp_path / "train.svm", "-o", tmp_path / "a.npz", *options, *(["--json"] if is_json else []))
    monkeypatch.setenv("STREAMSVM_CACHE_DIR", str(tmp_path / "nowhere"))
    done = run_here(*words)
    if is_json:
        found = [json.loads(line).get("slowdowns", ()) for line in done.stdout.splitlines()]
        assert Counter(each["code"] for one in found for each in one) == Counter(CODES)
    else:
        assert [done.stderr.count(f"[{code}]") for code in CODES] == [1, 1, 1]
