"""Files of arrays are read as numpy reads them, by several threads, too."""

import gc
import io
import sys
import threading

import numpy as np
import pytest

from streamsvm.storage.files.arrays import load_array, load_arrays, read_array, read_header

ARRAYS = {
    "by rows": np.arange(12.0).reshape(3, 4),
    "by columns": np.asfortranarray(np.arange(12, dtype=np.float32).reshape(3, 4)),
    "empty": np.empty((0, 5)),
    "one": np.array(3, np.int64),
    "words": np.array(["spam", "hàm"]),
    "no letter": np.array([""]),
}


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def test_arrays_are_as_numpy_reads_them(tmp_path):
    np.savez(tmp_path / "a.npz", **ARRAYS)
    for name, array in load_arrays(tmp_path / "a.npz").items():
        assert array.dtype == ARRAYS[name].dtype
        np.testing.assert_array_equal(array, ARRAYS[name])
        np.save(tmp_path / "a.npy", ARRAYS[name])
        np.testing.assert_array_equal(load_array(tmp_path / "a.npy"), ARRAYS[name])
    assert list(load_arrays(tmp_path / "a.npz", "one")) == ["one"]


@pytest.mark.parametrize(
    "data", [b"", b"no array", npy(np.arange(9))[:-1], npy(np.arange(9))[:40], npy(np.array([{}], object))]
)
def test_damage_is_an_error_of_value(data):
    with pytest.raises(ValueError):
        read_array(io.BytesIO(data))


class _Collected:
    """Garbage whose end is a method, during which Python may switch to another thread."""

    def __init__(self):
        self.myself = self

    def __del__(self):
        for _ in range(50):
            pass


def test_threads_read_headers_at_once(request):
    """CPython before 3.11.8 fails in half a second of this without the lock."""
    data, faults, interval, threshold = npy(np.zeros((104, 1))), [], sys.getswitchinterval(), gc.get_threshold()
    request.addfinalizer(lambda: (sys.setswitchinterval(interval), gc.set_threshold(*threshold)))
    sys.setswitchinterval(1e-6)
    gc.set_threshold(5)

    def read(depth):
        if depth:
            return read(depth - 1)
        return read_header(io.BytesIO(data))

    def reader(depth):
        try:
            for _ in range(2000):
                _Collected()
                read(depth)
        except SystemError as error:
            faults.append(error)

    threads = [threading.Thread(target=reader, args=(3 * k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
