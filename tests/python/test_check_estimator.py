"""scikit-learn's own checks of an estimator, every one."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from streamsvm import StreamSVC, StreamSVR

# Some of the checks are of data on which training takes more passes than they have patience for.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

# A weight of 2 and a row twice have one optimum, which a check looks for to seven digits.
EXACT = {"tolerance": 1e-10}


# On a budget it takes thousands of passes.
INEXACT = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]


def expected_failures(estimator):
    has_kernel = getattr(estimator, "kernel", "linear") == "rbf"
    return dict.fromkeys(INEXACT, "a few passes are no seven digits") if has_kernel else {}


@parametrize_with_checks(
    [StreamSVC(**EXACT), StreamSVC(kernel="rbf", max_passes=10), StreamSVR(**EXACT, max_passes=300)],
    expected_failed_checks=expected_failures,
)
def test_checks(estimator, check):
    check(estimator)
