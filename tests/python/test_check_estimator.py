"""scikit-learn's own checks of an estimator, every one; of a kernel machine in few passes."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from streamsvm import StreamSVC, StreamSVR

# Some of the checks are of data on which training takes more passes than they have patience for.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@parametrize_with_checks([StreamSVC(), StreamSVC(kernel="rbf", max_passes=5), StreamSVR()])
def test_checks(estimator, check):
    check(estimator)
