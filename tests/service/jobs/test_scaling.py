"""Who is told to scale features: whose rows are long, for the C that was asked for."""

import pytest

from streamsvm.service.jobs.fields.features import scaling_note
from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.storage.blocks.manifest import Manifest


def manifest(mean: float) -> Manifest:
    """100 rows of this mean squared norm."""
    return Manifest("u", 1, 5, 100, 500, {-1.0: 50, 1.0: 50}, 5, 1000, {}, (), Qii_spread=(0.0, 100 * mean, 2 * mean))


@pytest.mark.parametrize(("C", "mean"), [(1.0, 2e4), (100.0, 200.0), ([0.1, 100.0], 200.0)])
def test_long_rows_are_named(C, mean):
    assert f"squared norms of {mean:.2g} on average" in scaling_note(
        parse_spec({"dataset": "d", "C": C}), manifest(mean)
    )


@pytest.mark.parametrize(("C", "mean"), [(1.0, 1.0), (1000.0, 1.0), (0.01, 2e5), ([0.1, 1.0], 200.0)])
def test_others_are_not(C, mean):
    assert scaling_note(parse_spec({"dataset": "d", "C": C}), manifest(mean)) is None
