"""Whether Newton steps would end training sooner than more sweeps, by the price of their operations: no clock is read.

So a job on few rows, which one thread sweeps over, comes out the same each time that it is run.
"""

from streamsvm.trainer.newton.system import LARGEST
from streamsvm.trainer.sweeps.outlook import Outlook

LEAST_SWEEPS = 5  # sweeps, until it is known at which rate gaps fall
_SCANS, _STEPS = 40, 18  # scans and steps of a task, measured; it took 16 to 110 scans to a relative gap of 1e-4
_SCANNED, _VISITED = 1.0e-9, 2.0e-9  # seconds a value, measured; a scan only multiplies, a visit also adds to w
_FLOP = 2.5e-10  # seconds, of BLAS and LAPACK on one core
_MORE_FREE = 1.5  # rows in a system for each row that is free in sweeps


def system_size(outlook: Outlook) -> float:
    """Equations of the largest system that is to be expected."""
    return min(float(outlook.n_features), _MORE_FREE * outlook.n_free)


def is_newton_quicker(sweeps: int, outlook: Outlook) -> bool:
    """Whether Newton steps are likely to end sooner, after so many sweeps. Never where systems would be too large."""
    n_rows, size = _MORE_FREE * outlook.n_free, system_size(outlook)
    if sweeps < LEAST_SWEEPS or size > LARGEST:
        return False
    n_tasks, row_values = len(outlook.rates), outlook.n_values / max(outlook.n_rows, 1)
    system = (size**3 / 3.0 + n_rows * min(size, row_values) ** 2) * _FLOP
    newton = n_tasks * (_SCANS * outlook.n_values * _SCANNED + _STEPS * system)
    return newton < n_tasks * outlook.sweeps_left * outlook.visits * row_values * _VISITED
