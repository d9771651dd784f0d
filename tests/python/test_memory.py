"""Data larger than memory is never held in it: fits within a control group, with the calling interpreter."""

import json
import sys

import pytest

from tests.bench.generate import generate
from tests.end_to_end.cgroup import reason_unusable, run_command

LIMIT = 640 << 20
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


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "chunks"])
def test_two_gigabytes(tmp_path, kind):
    if reason := reason_unusable():
        pytest.skip(reason)
    program, given = _OF_CHUNKS, 2 * 10**9
    if kind == "file":
        program, given = _OF_A_FILE, tmp_path / "text.svm"
        generate(given, size_bytes=2 * 10**9, features=1 << 20)
        assert given.stat().st_size > 2 * LIMIT
    done = run_command("python", LIMIT, sys.executable, "-c", program, given)
    assert (done.returncode, done.oom_kills) == (0, 0), done.stderr.decode()
    gap, n_features = json.loads(done.stdout)
    assert 0 <= gap < 1 and n_features <= 1 << 20 and done.peak <= LIMIT
