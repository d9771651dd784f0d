"""free_memory and memory_limit, tested with made-up control groups and a made-up machine."""

import pytest

from streamsvm.storage.machine.resources import free_memory, memory_limit
from tests.storage.groups import member, write

MIB = 1 << 20


@pytest.fixture
def machine(tmp_path):
    """A machine with 900 MiB available."""
    path = tmp_path / "meminfo"
    path.write_text(f"MemTotal:  {2 << 20} kB\nMemFree:  1 kB\nMemAvailable:  {900 << 10} kB\n")
    return path


def group_of_version_1(directory, limit, used, files=0):
    write(directory / "memory.limit_in_bytes", f"{limit}\n")
    write(directory / "memory.usage_in_bytes", f"{used}\n")
    write(
        directory / "memory.stat",
        f"cache 7\ninactive_file 1\nactive_file 1\ntotal_inactive_file {files}\ntotal_active_file {files}\n",
    )


def group_of_version_2(directory, limit, used, files=0):
    write(directory / "memory.max", f"{limit}\n")
    write(directory / "memory.current", f"{used}\n")
    write(directory / "memory.stat", f"anon 7\ninactive_file {files}\nactive_file {files}\n")


def test_without_control_groups_the_machine_counts(tmp_path, machine):
    assert free_memory(tmp_path / "mount", tmp_path / "missing", machine) == 900 * MIB
    assert free_memory(tmp_path / "mount", member(tmp_path, "0::/", "1:memory:/"), machine) == 900 * MIB


def test_without_any_figure_nothing_is_free(tmp_path):
    assert free_memory(tmp_path / "mount", tmp_path / "missing", tmp_path / "missing") == 0


@pytest.mark.parametrize(("make", "line"), [(group_of_version_1, "4:memory:/a/b"), (group_of_version_2, "0::/a/b")])
def test_of_a_group_the_page_cache_counts_as_free(tmp_path, machine, make, line):
    mount = tmp_path / "mount"
    top = mount / "memory" if make is group_of_version_1 else mount
    make(top / "a" / "b", 640 * MIB, 500 * MIB, 30 * MIB)
    assert free_memory(mount, member(tmp_path, line), machine) == 200 * MIB
    make(top / "a", 600 * MIB, 550 * MIB)  # of all groups above, this one has the least left
    assert free_memory(mount, member(tmp_path, line), machine) == 50 * MIB
    make(top / "a", 600 * MIB, 601 * MIB)
    assert free_memory(mount, member(tmp_path, line), machine) == 0


def test_a_group_without_a_limit(tmp_path, machine):
    group_of_version_2(tmp_path / "mount" / "a", "max", 500 * MIB)
    assert free_memory(tmp_path / "mount", member(tmp_path, "0::/a"), machine) == 900 * MIB
    group_of_version_1(tmp_path / "old" / "memory" / "a", 2**63 - 4096, 500 * MIB)
    assert free_memory(tmp_path / "old", member(tmp_path, "4:memory:/a"), machine) == 900 * MIB


def test_this_machine_says():
    assert free_memory() > 0


@pytest.mark.parametrize(("make", "line"), [(group_of_version_1, "4:memory:/a/b"), (group_of_version_2, "0::/a/b")])
def test_the_limit_is_the_least_of_machine_and_groups(tmp_path, make, line):
    mount, membership = tmp_path / "mount", member(tmp_path, line)
    top = mount / "memory" if make is group_of_version_1 else mount
    assert memory_limit(mount, membership, 2048 * MIB) == 2048 * MIB
    make(top / "a" / "b", 640 * MIB, 500 * MIB)
    assert memory_limit(mount, membership, 2048 * MIB) == 640 * MIB
    assert memory_limit(mount, membership, 512 * MIB) == 512 * MIB
    make(top / "a", 600 * MIB, 550 * MIB)
    assert memory_limit(mount, membership, 2048 * MIB) == 600 * MIB
