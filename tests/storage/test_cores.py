"""usable_cores reads the affinity and the quotas of control groups: tested with made-up groups."""

import os

import pytest

from streamsvm.storage.machine.resources import usable_cores
from tests.storage.groups import member, write

MANY = 64


@pytest.fixture(autouse=True)
def a_large_machine(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(MANY)))


def test_without_control_groups_the_affinity_counts(tmp_path):
    assert usable_cores(tmp_path / "mount", tmp_path / "missing") == MANY
    assert usable_cores(tmp_path / "mount", member(tmp_path, "0::/", "1:cpu:/")) == MANY


@pytest.mark.parametrize(
    ("limit", "cores"),
    [
        ("max 100000", MANY),
        ("200000 100000", 2),
        ("150000 100000", 2),
        ("210000 100000", 3),
        ("5000 100000", 1),
        ("99900000 100000", MANY),
    ],
)
def test_a_quota_of_version_2_is_rounded_up(tmp_path, limit, cores):
    mount = tmp_path / "mount"
    write(mount / "a" / "b" / "cpu.max", f"{limit}\n")
    assert usable_cores(mount, member(tmp_path, "0::/a/b")) == cores


def test_the_least_quota_on_the_way_up_counts(tmp_path):
    mount = tmp_path / "mount"
    write(mount / "a" / "cpu.max", "300000 100000\n")
    write(mount / "a" / "b" / "cpu.max", "800000 100000\n")
    write(mount / "c" / "cpu.max", "100000 100000\n")  # a group of other processes
    assert usable_cores(mount, member(tmp_path, "0::/a/b")) == 3


@pytest.mark.parametrize("controllers", ["cpu", "cpu,cpuacct"])
@pytest.mark.parametrize(("quota", "cores"), [(-1, MANY), (200_000, 4), (220_000, 5)])
def test_a_quota_of_version_1(tmp_path, controllers, quota, cores):
    mount = tmp_path / "mount"
    write(mount / controllers / "a" / "cpu.cfs_quota_us", f"{quota}\n")
    write(mount / controllers / "a" / "cpu.cfs_period_us", "50000\n")
    lines = "7:memory:/m", f"3:{controllers}:/a", "0::/"
    assert usable_cores(mount, member(tmp_path, *lines)) == cores


def test_in_a_container_the_mount_is_the_group_itself(tmp_path):
    """The listed path is the host's, which does not exist inside the container."""
    mount = tmp_path / "mount"
    write(mount / "cpu" / "cpu.cfs_quota_us", "100000\n")
    write(mount / "cpu" / "cpu.cfs_period_us", "100000\n")
    assert usable_cores(mount, member(tmp_path, "3:cpu:/docker/0123abcd")) == 1


def test_no_more_than_the_affinity(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5})
    write(tmp_path / "mount" / "cpu.max", "400000 100000\n")
    assert usable_cores(tmp_path / "mount", member(tmp_path, "0::/")) == 2
