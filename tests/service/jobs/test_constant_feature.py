"""A constant feature among `features` is the same as the field `bias`, also where the blocks renumber features."""

import pytest

from streamsvm import load
from streamsvm.service.cli import main

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
