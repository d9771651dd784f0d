"""The next job of the queue, once there is room to write down that it runs."""

import logging
import sqlite3
from collections.abc import Sequence
from typing import Any

from streamsvm.service.processes.retry_policy import is_full
from streamsvm.service.records.store import Store

_log = logging.getLogger("streamsvm.worker")


class Queue:
    """`claim` from it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._is_told = False

    def claim(self, passed_over: Sequence[str]) -> dict[str, Any] | None:
        """The next job but those, which is running from now on; None if there is none, or the disk is full.

        A worker that ended for that would count as a crash of each job whose end it has yet to write down.
        """
        try:
            record = self._store.claim_job(passed_over)
        except sqlite3.Error as error:
            if not is_full(error):
                raise
            if not self._is_told:
                _log.warning("no job is begun while the disk is full")
            self._is_told = True
            return None
        self._is_told = False
        return record
