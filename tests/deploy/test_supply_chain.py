"""Images have exact contents; containers, ours and others', have bounded rights and resources."""

import re
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.deploy.container import DEPLOY, ROOT, compose

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCKED = {path.stem: path.read_text() for path in sorted((DEPLOY / "locked").iterdir())}
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
SERVICES = compose()["services"]
RAY = yaml.safe_load((DEPLOY / "ray/compose.yaml").read_text())["services"]
CONTAINERS = {**SERVICES, **{f"ray-{name}": service for name, service in RAY.items()}}


def versions(*names):
    """Map each package to its versions in the files; some versions are for one version of Python."""
    found: dict[str, set[str]] = {}
    for name in names:
        for package, version in re.findall(r"^([\w.-]+)(?:\[[^]]*\])?==([^\s;]+)", LOCKED[name], re.MULTILINE):
            found.setdefault(canonicalize_name(package), set()).add(version)
    return found


@pytest.mark.parametrize("name", LOCKED)
def test_every_requirement_is_one_version_with_hashes_and_names_no_index(name):
    entries = re.findall(r"^\S.*\n(?:[ \t]+.*\n)*", LOCKED[name], re.MULTILINE)
    assert bool(entries) == (PROJECT["optional-dependencies"].get(name) != []) and "".join(entries) == LOCKED[name]
    for entry in entries:
        assert re.fullmatch(
            r"[\w.-]+(\[[\w,-]+\])?==[\w.+!-]+( ; [^\\]+)?( \\\n +--hash=sha256:[0-9a-f]{64})+\n", entry
        ), entry.splitlines()[0]


def test_all_that_the_image_can_have_is_locked():
    extras = PROJECT["optional-dependencies"]
    assert set(LOCKED) == {"base", "build"} | (set(extras) - {"test", "bench", "sklearn", "plot"})
    asked = {"base": PROJECT["dependencies"], **{each: extras[each] for each in LOCKED if each in extras}}
    for name, wanted in asked.items():
        found = versions("base", name)
        for requirement in map(Requirement, wanted):
            locked = found[canonicalize_name(requirement.name)]
            assert all(requirement.specifier.contains(version) for version in locked), requirement


def test_versions_of_all_extras_go_together():
    split = {"numpy", "scipy"}  # newer ones need a newer Python
    assert {name for name, found in versions(*LOCKED).items() if len(found) > 1} <= split


def test_the_image_installs_by_hash_or_what_it_has_built():
    runs = re.findall(r"pip --python \S+ (?:install|wheel) (?:.*\\\n)*.*", DOCKERFILE)
    commands = [command for run in runs for command in re.split(r"&&", run) if "pip" in command]
    assert len(commands) == 4
    for command in commands:
        assert "--require-hashes" in command or {"--no-deps", "--no-index"} <= set(command.split())
    allowed = (ROOT / ".dockerignore").read_text().splitlines()
    assert "!deploy/locked" in allowed


def test_images_that_are_fetched_can_be_named_by_digest():
    assert all(line.endswith("-slim${PYTHON_DIGEST}") for line in re.findall(r"^FROM \S+", DOCKERFILE, re.MULTILINE))
    text = (DEPLOY / "compose.yaml").read_text()
    assert "PYTHON_DIGEST: ${PYTHON_DIGEST:-}" in text
    fetched = [line.split("image: ")[1] for line in text.splitlines() if "image: " in line and "streamsvm" not in line]
    assert len(fetched) == 2
    for image in fetched:
        assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+\$\{[A-Z]+_DIGEST:-\}", image)


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_container_has_no_rights_and_bounds(name):
    service = CONTAINERS[name]
    assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"]
    assert service["mem_limit"] == service["memswap_limit"]  # none of it is swap
    assert isinstance(service["pids_limit"], int) and "privileged" not in service


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_writes_to_its_volumes_only_and_is_not_root(name):
    service = SERVICES[name]
    assert service["read_only"]
    own = re.findall(r"^USER (\S+)", DOCKERFILE, re.MULTILINE)[-1]
    user = own if "build" in service else service["user"]
    assert re.fullmatch(r"[1-9]\d*:\d+", user)


def test_pods_of_ray_have_no_rights_and_bounds():
    spec = yaml.safe_load((DEPLOY / "ray/kuberay.yaml").read_text())["spec"]
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        for container in group["template"]["spec"]["containers"]:
            rights = container["securityContext"]
            assert rights == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
            assert container["resources"]["limits"]["memory"]


def test_grafana_fetches_nothing_and_logs_where_it_may_write():
    environment = SERVICES["grafana"]["environment"]
    assert environment["GF_PLUGINS_PREINSTALL_DISABLED"] == "true" and "GF_INSTALL_PLUGINS" not in environment
    assert environment["GF_LOG_MODE"] == "console"
