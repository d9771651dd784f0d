"""Data larger than memory is never held in it: fits within a control group, with the calling interpreter."""

import json
import subprocess
import sys

import pytest

from tests.bench.generate import generate
from tests.end_to_end.cgroup import MemoryGroup, reason_unusable

MIB = 1 << 20
LIMIT = 640 * MIB
_IN_GROUP = 'echo $$ > "$0/cgroup.procs"; exec "$@"'
_PARAMETERS = "cache_bytes=128 << 20, relative_gap=None, max_passes=2"
_OF_A_FILE = f"""
import json, sys, warnings
warnings.simplefilter("ignore")
from streamsvm import StreamSVC
model = StreamSVC({_PARAMETERS}).fit(sys.argv[1])
print(json.dumps([model.certificate_.relative_duality_gap, model.n_features_in_]))
"""
# As many rows as the file has, made while they are read.
_OF_CHUNKS = f"""
import json, sys, warnings
import numpy as np
from scipy import sparse
warnings.simplefilter("ignore")
from streamsvm import StreamSVC
def chunks(total, features=1 << 20, nnz=100, rows=5000):
    rng = np.random.default_rng(0)
    for _ in range(total // (rows * nnz * 8)):
        indices = rng.integers(0, features, (rows, nnz)).ravel()
        X = sparse.csr_matrix((rng.random(rows * nnz), indices, np.arange(rows + 1) * nnz), (rows, features))
        yield X, np.where(indices.reshape(rows, nnz)[:, 0] < features // 2, 1, -1)
model = StreamSVC({_PARAMETERS}).fit(chunks(int(sys.argv[1])))
print(json.dumps([model.certificate_.relative_duality_gap, model.n_features_in_]))
"""


def run_in_group(program, argument):
    """What a program in Python prints, and how much memory it and its processes had at most."""
    if reason := reason_unusable():
        pytest.skip(reason)
    group = MemoryGroup("python", LIMIT)
    try:
        words = ["sh", "-c", _IN_GROUP, group.path, sys.executable, "-c", program, str(argument)]
        done = subprocess.run(words, capture_output=True, timeout=1800, check=False)
        kills, peak = group.oom_kills, group.peak
    finally:
        group.remove()
    assert (done.returncode, kills) == (0, 0), done.stderr.decode()
    return json.loads(done.stdout), peak


@pytest.mark.slow
def test_a_file_of_two_gigabytes(tmp_path, capsys):
    text = tmp_path / "text.svm"
    generate(text, size_bytes=2 * 10**9, features=1 << 20)
    assert text.stat().st_size > 2 * LIMIT
    (gap, n_features), peak = run_in_group(_OF_A_FILE, text)
    assert 0 <= gap < 1 and n_features <= 1 << 20
    assert peak <= LIMIT
    with capsys.disabled():
        print(f"\npeak {peak / MIB:.0f} MiB")


@pytest.mark.slow
def test_chunks_of_two_gigabytes():
    (gap, n_features), peak = run_in_group(_OF_CHUNKS, 2 * 10**9)
    assert 0 <= gap < 1 and n_features == 1 << 20
    assert peak <= LIMIT
