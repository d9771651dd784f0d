"""Features: a constant one among `features` is the field `bias`; who is told to scale has long rows."""

import pytest

from streamsvm import load
from streamsvm.service.cli import main
from streamsvm.service.jobs.fields.features import scaling_note
from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.storage.blocks.manifest import Manifest

WORDS = ("the", "cat", "sat", "on", "a", "mat", "and", "dogs", "ran")
TEXTS = {
    "text": "".join(
        f"{(-1) ** k}\t{' '.join(WORDS[j] for j in range(9) if (k * 7 + j * j) % 5 < 2)}\n" for k in range(60)
    ),
    "libsvm": "".join(f"{(-1) ** k} {k % 5 + 1}:1 {10 ** (k % 3 + 3)}:{k % 7 - 3} 9999999:0.5\n" for k in range(60)),
}


@pytest.mark.parametrize("format_", TEXTS)
def test_it_is_the_last_feature(tmp_path, format_):
    (tmp_path / "rows").write_text(TEXTS[format_])
    found = {}
    for name, options in {"map": ["--features", "unit,bias", "--no-bias"], "field": ["--features", "unit"]}.items():
        asked = ["--format", format_, "--pace", "fixed", *options, "-o", str(tmp_path / "m.npz")]
        assert main(["train", str(tmp_path / "rows"), *asked]) == 0
        found[name] = load(tmp_path / "m.npz").model_
    *weights, last = found["map"].w.tolist()
    assert any(weights) and weights == found["field"].w.tolist() and last == found["field"].w_bias
    assert main(["predict", str(tmp_path / "m.npz"), str(tmp_path / "rows"), "-o", str(tmp_path / "out")]) == 0


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
