"""scikit-learn's own checks of an estimator, every one."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from streamsvm import StreamSVC, StreamSVR

# Some of the checks are of data on which training takes more passes than they have patience for.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

# A weight of 2 and a row twice have one optimum, which a check looks for to seven digits.
EXACT = {"tolerance": 1e-10}


@parametrize_with_checks([StreamSVC(**EXACT), StreamSVR(**EXACT, max_passes=300)])
def test_checks(estimator, check):
    check(estimator)
