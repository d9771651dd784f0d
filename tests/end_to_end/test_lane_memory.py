"""Many classes of many features within memory_bytes, in groups, from text to model: the kernel enforces it."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.bench.generate import generate
from tests.bench.relabel import relabel
from tests.end_to_end.cgroup import MemoryGroup, reason_unusable

CLASSES, FEATURES, LIMIT = 20, 1 << 22, 1 << 30
_IN_GROUP = 'echo $$ > "$0/cgroup.procs"; exec "$@"'


@pytest.mark.slow
def test_twenty_classes_of_four_million_features_in_a_gibibyte(tmp_path):
    if reason := reason_unusable():
        pytest.skip(reason)
    text, model = tmp_path / "text.svm", tmp_path / "model.npz"
    generate(text, size_bytes=300 * 10**6, features=FEATURES)
    relabel(text, CLASSES)
    group = MemoryGroup("lanes", LIMIT)
    options = ["--memory", "1GiB", "-e", "none", "--relative-gap", "1e-2", "--json", "-o", model]
    words = [Path(sys.executable).with_name("streamsvm"), "train", text, *options]
    try:
        done = subprocess.run(
            ["sh", "-c", _IN_GROUP, group.path, *words], capture_output=True, timeout=900, check=False
        )
        kills, peak = group.oom_kills, group.peak
    finally:
        group.remove()
    assert (done.returncode, kills) == (0, 0), done.stderr
    assert peak <= LIMIT
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    lanes = lines[-1]["result"]["lanes"]
    assert len(lanes) == CLASSES and all(lane["relative_duality_gap"] <= 1e-2 for lane in lanes)
    # Side by side, but not all at once: their weights alone would take three gigabytes.
    assert len({lane["class"] for lane in lanes}) == CLASSES
    with np.load(model) as arrays:
        assert arrays["w"].shape[0] == CLASSES and arrays["w"].nbytes > 0.6 * LIMIT
