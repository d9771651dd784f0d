"""Whether Newton steps are the quicker end of training than more sweeps. Pure: no clock, no rows."""

from streamsvm.trainer.newton.system import LARGEST
from streamsvm.trainer.sweeps.outlook import Outlook

LEAST_SWEEPS = 5  # before the rate at which gaps fall is known
_SCANS, _STEPS = 40, 18  # that a task takes, measured: 16 to 110 scans to a relative gap of 1e-4
_SCAN = 0.7  # of the time of a sweep over all rows: a scan makes products alone
_FLOPS = 4e9  # a second, of a core
_MORE_FREE = 1.5  # rows of a system, to one free row of a sweep


def is_newton_quicker(sweeps: int, outlook: Outlook) -> bool:
    """Whether Newton steps are likely to end sooner, after so many sweeps. Never where systems would be too large."""
    n_rows = _MORE_FREE * outlook.n_free
    size = min(float(outlook.n_features), n_rows)
    if sweeps < LEAST_SWEEPS or size > LARGEST:
        return False
    system = (size**3 / 3.0 + n_rows * size**2) / _FLOPS
    newton = _SCANS * _SCAN * outlook.whole_seconds + _STEPS * len(outlook.rates) * system
    return newton < outlook.sweeps_left * outlook.sweep_seconds
