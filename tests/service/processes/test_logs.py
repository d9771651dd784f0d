"""Logs stay readable, and small, when something goes wrong many times a second."""

import logging

from streamsvm.service.processes.logs import OnceASecond


def told(*said):
    """Which of these (time, message) a logger with the filter tells."""
    filter_, found = OnceASecond(), []
    for created, message in said:
        record = logging.makeLogRecord({"msg": message})
        record.created = created
        found.append(filter_.filter(record))
    return found


def test_a_message_is_told_once_a_second():
    assert told((0.0, "full"), (0.1, "full"), (0.9, "full"), (1.1, "full"), (1.2, "full")) == [
        True,
        False,
        False,
        True,
        False,
    ]


def test_other_messages_are_told_at_once():
    assert told((0.0, "full"), (0.1, "other"), (0.2, "full")) == [True] * 3
