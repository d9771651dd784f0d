"""Takes jobs from the queue, if the disk has room to record that they run."""

import logging
import sqlite3
from collections.abc import Sequence
from typing import Any

from streamsvm.service.processes.retry_policy import is_full
from streamsvm.service.records.store import Store

_log = logging.getLogger("streamsvm.worker")


class Queue:
    """The queue of jobs: `claim` the next."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._is_told = False

    def claim(self, passed_over: Sequence[str]) -> dict[str, Any] | None:
        """Record the next job, except those passed over, as running; None if there is none, or the disk is full.

        A full disk must not end the worker: that would count as a crash of each job whose end is not recorded yet.
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
