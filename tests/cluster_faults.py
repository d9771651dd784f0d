"""Faults of Ray clusters, so often each, several clusters side by side: each has processes and a network of its own.

python -m tests.cluster_faults [TIMES] [WORDS OF TESTS]        as root
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SIDE_BY_SIDE = 3  # they wait half of the time
_TESTS = Path(__file__).with_name("end_to_end")
# The longest first.
FAULTS = {
    "machines_apart": ("until_another_one_takes_over", "node_is_paused", "cut_for_moments"),
    "machines_disks": ("disk_of_a_node_is_full",),
    "machines": (
        "node_is_killed",
        "machine_is_paused",
        "coordinator_is_killed",
        "process_of_a_machine_is_killed",
        "killed_near_the_end",
    ),
}
_APART = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--net", "--ipc")
# What else processes could meet each other by.
_OWN_FILES = """
mount -t tmpfs tmpfs /dev/shm && mount --bind "$0" /tmp/ray && mount -t tmpfs tmpfs /run && ip link set lo up && "$@"
"""


def main(times: int, words: Sequence[str]) -> int:
    """Run all of them whose name has one of the words; the exit code."""
    chosen = [
        (name, fault)
        for name, faults in FAULTS.items()
        for fault in faults
        if not words or any(word in fault for word in words)
    ]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        failed = list(pool.map(lambda each: _run(*each, times), chosen))
    return int(any(failed))


def _run(name: str, fault: str, times: int) -> int:
    Path("/tmp/ray").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as own:
        log = Path(own) / "log"
        pytest = [sys.executable, "-m", "pytest", "-q", _TESTS / f"test_{name}.py", "-k", fault]
        command = [*_APART, "sh", "-c", _OWN_FILES, own, *pytest, f"--basetemp={own}/tests"]
        environment = {**os.environ, "CLUSTER_FAULTS": str(times)}
        with log.open("wb") as out:
            code = subprocess.run(command, env=environment, stdout=out, stderr=out, check=False).returncode
        told = log.read_text(errors="replace")
    print(fault, told if code else told.splitlines()[-1], sep=": ", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100, sys.argv[2:]))
