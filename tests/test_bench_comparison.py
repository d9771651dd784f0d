"""The comparison: its figures cover all that is waited for."""

from pathlib import Path

from tests.bench.comparison import Comparison
from tests.bench.jobs import Finished
from tests.bench.prepared import Prepared
from tests.bench.usage import Spent

LEVEL = 1e-3


def comparison(converged: bool) -> Comparison:
    """Of a job that starts in 1 second, trains and certifies in 6, all on both cores."""
    job = Finished([], [{"converged": converged}], Spent(1.0, 2.0), Spent(6.0, 12.0), 0)
    return Comparison(Prepared(Path(), 1, 1, 1), 1, 1.0, 0.0, jobs=[{LEVEL: job}])


def test_the_certificate_counts_in_all_that_a_user_waits_for_unless_the_job_certified_less():
    found = comparison(converged=True)
    assert (found.training(LEVEL), found.next_job(LEVEL)) == (Spent(6.0, 12.0), Spent(7.0, 14.0))
    found = comparison(converged=False)
    assert (found.training(LEVEL), found.next_job(LEVEL)) == (None, None)
