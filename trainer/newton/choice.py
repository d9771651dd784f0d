"""Decides whether Newton steps would end training sooner than sweeps, by the usual time of operations: reads no clock.

So a job on few rows, which one thread sweeps over, gives the same model at each run. Several machines share the scans,
and send the sums that they find to one machine.
"""

from dataclasses import dataclass
from math import inf, log

import numpy as np

from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.newton.system import DENSE_PAYS, LARGEST, fits_iterated
from streamsvm.trainer.updates.convergence import StoppingTargets


@dataclass(frozen=True)
class Outlook:
    """The state of training after a sweep.

    rates                for each task that is trained: the share of its gap that remains after a sweep
    shares_left          for each of these tasks: the share of its present gap at which it reaches its targets
    visits               mean number of rows that one of the last sweeps visited
    n_rows, n_values     number of rows, and of their values
    n_features           length of w
    n_free               number of rows with 0 < alpha < U, in the task that has most of them
    """

    rates: tuple[float, ...]
    shares_left: tuple[float, ...]
    visits: float
    n_rows: int
    n_values: float
    n_features: int
    n_free: int

    @property
    def sweeps_left(self) -> float:
        """Number of sweeps until the last task reaches its targets, if gaps go on falling at these rates."""
        return max(map(_sweeps, self.rates, self.shares_left), default=0.0)


def shares_left(targets: StoppingTargets, distance: Array, gap: Array, dual_objective: Array) -> Array:
    """Return the share of its present gap at which each task reaches the targets, (count,); 0 without targets.

    M+ - M- is assumed to fall as the gap does.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = [np.zeros(len(gap))] if not targets.is_bound else []
        if targets.relative_gap is not None:
            shares.append(targets.relative_gap * (dual_objective + gap) / gap)
        if targets.tolerance is not None:
            shares.append(targets.tolerance / distance)
    return np.nan_to_num(np.min(shares, axis=0), nan=1.0, posinf=1.0)


def _sweeps(rate: float, share: float) -> float:
    if share >= 1.0:
        return 0.0
    if rate >= 1.0 or share <= 0.0:
        return inf
    return log(share) / log(rate) if rate > 0.0 else 1.0


LEAST_SWEEPS = 5  # number of sweeps before it is known at which rate gaps fall
# Gaps need not fall at first, and yet sweeps may end soon (text, images, a large C). So sweeps are tried first, for
# this share of the seconds that Newton steps would take: where sweeps lead nowhere, no more time is lost.
_TRIED = 0.15
_ITERATIONS = 300  # of conjugate gradients in a step, measured; some take 30, and with a large C 1000
_SCANS, _STEPS = 40, 18  # scans and steps of a task, measured; it took 16 to 110 scans to a relative gap of 1e-4
_SCANNED, _VISITED = 1.0e-9, 4.0e-9  # seconds a value, measured; a scan only multiplies, a visit also adds to w
_VISIT = 1.0e-7  # seconds a visit takes besides
_TOGETHER = 0.4  # share of these seconds where a visit is of several tasks, measured with ten
_FLOP = 5.0e-11  # seconds, of BLAS and LAPACK on one core, measured with some thousand equations
_MORE_FREE = 1.5  # rows in the largest system for each row that is free in sweeps; other systems have one for each
_NUMBER, _HALF_MATRIX, _SPARSE = 8, 4, 12  # bytes of a number, of an entry of a system, of a value of a row
_SENT = 2.0e-9  # seconds a byte, from machine to machine, of a fast network
_STEP_MESSAGES, _ROUND_MESSAGES = 5, 4  # messages that machines wait for; a round has those of a pool
_MESSAGE = 5e-3  # seconds that a message takes at least
_SHARE_OF_ROUND, _LEAST_SHARE = 0.1, 1e-12  # of the gap, that a round leaves


def system_size(outlook: Outlook) -> float:
    """Return the number of equations that the largest system is likely to have."""
    return min(float(outlook.n_features), _MORE_FREE * outlook.n_free)


def has_room(outlook: Outlook, equations: int) -> bool:
    """Whether room for `equations` equations is enough. Systems above LARGEST are iterated, and take no more room."""
    return min(system_size(outlook), LARGEST) <= equations


def is_newton_quicker(sweeps: int, outlook: Outlook, may_iterate: bool = True) -> bool:
    """Whether Newton steps, begun after `sweeps` sweeps, are likely to end training sooner than more sweeps would.

    may_iterate  see trainer.newton.system. Steps are never quicker where systems would be too large
    """
    fits = fits_iterated(_free_values(outlook), len(outlook.rates))
    if not (system_size(outlook) <= LARGEST or (may_iterate and fits)):
        return False
    newton, sweep = _newton_seconds(outlook), _sweep_seconds(outlook)
    return newton < outlook.sweeps_left * sweep and _TRIED * newton <= sweeps * sweep


def is_newton_quicker_than_rounds(outlook: Outlook, machines: int) -> bool:
    """Whether Newton steps on `machines` machines are likely to end training sooner than more of their rounds.

    In rounds, one machine makes the sweeps that are left, over the free rows of all machines (outlook.visits).
    """
    if system_size(outlook) > LARGEST or not outlook.sweeps_left:
        return False
    n_tasks, free_values = len(outlook.rates), outlook.visits * _row_values(outlook)
    vectors = 4 * machines * _NUMBER * n_tasks * outlook.n_features
    sent = _STEPS * ((_system_bytes(outlook, machines) + vectors) * _SENT + _STEP_MESSAGES * _MESSAGE)
    round_ = free_values * _SPARSE * _SENT + n_tasks * outlook.n_values * _SCANNED / machines
    rounds = max([1.0, *(log(max(share, _LEAST_SHARE)) / log(_SHARE_OF_ROUND) for share in outlook.shares_left)])
    in_rounds = outlook.sweeps_left * _sweep_seconds(outlook) + rounds * (round_ + _ROUND_MESSAGES * _MESSAGE)
    return _newton_seconds(outlook, machines) + sent < in_rounds


def _newton_seconds(outlook: Outlook, machines: int = 1) -> float:
    size, row_values = system_size(outlook), _row_values(outlook)
    if size > LARGEST:
        iterated = _STEPS * _ITERATIONS * 2 * _free_values(outlook) * _SCANNED
        return len(outlook.rates) * (_SCANS * outlook.n_values * _SCANNED + iterated)
    usual = min(size, outlook.n_free)
    added = outlook.n_free * min(usual**2, DENSE_PAYS * row_values**2) / machines
    steps = _STEPS * (usual**3 / 3.0 + added) * _FLOP
    return len(outlook.rates) * (_SCANS * outlook.n_values * _SCANNED / machines + steps)


def _sweep_seconds(outlook: Outlook) -> float:
    n_tasks = len(outlook.rates)
    together = _TOGETHER if n_tasks > 1 else 1.0
    return n_tasks * outlook.visits * (_row_values(outlook) * _VISITED + _VISIT) * together


def _system_bytes(outlook: Outlook, machines: int) -> float:
    """Return the bytes that all machines together send for the systems of a step."""
    n_rows = _MORE_FREE * outlook.n_free
    if outlook.n_features <= n_rows:
        return len(outlook.rates) * machines * _HALF_MATRIX * float(outlook.n_features) ** 2
    return len(outlook.rates) * n_rows * _row_values(outlook) * _SPARSE


def _free_values(outlook: Outlook) -> float:
    """Return the number of values in the rows of the largest system."""
    return min(_MORE_FREE * outlook.n_free, outlook.n_rows) * _row_values(outlook)


def _row_values(outlook: Outlook) -> float:
    return outlook.n_values / max(outlook.n_rows, 1)
