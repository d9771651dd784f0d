"""/v2/health: the service is live, and ready if it works."""

import sqlite3

from tests.api.app import check_problem


def test_the_service_is_live_and_ready(filled):
    assert filled.request("GET", "/v2/health/live").json() == {"live": True}
    assert filled.request("GET", "/v2/health/ready").json() == {"ready": True}


def test_a_service_whose_records_cannot_be_read_is_live_but_not_ready(service, monkeypatch):
    def fail(*_):
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr("streamsvm.service.records.database.Database.rows", fail)
    assert service.request("GET", "/v2/health/live").status_code == 200
    check_problem(service.request("GET", "/v2/health/ready"), "unavailable", 503)
