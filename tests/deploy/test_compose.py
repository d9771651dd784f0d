"""The files of deploy/ agree: compose file, Dockerfile, settings, metrics."""

import json
import re
import shlex

import pytest
import yaml
from prometheus_client import generate_latest

from streamsvm.api.app import create_app
from streamsvm.service.cli import main
from streamsvm.service.processes.run import HAND_BACK_SECONDS
from streamsvm.service.settings import Settings
from tests.containers.project import PLACE, with_podman
from tests.deploy.container import DEPLOY, ROOT, USER, compose, image_environment

COMPOSE = compose()
SERVICES = COMPOSE["services"]
OURS = [SERVICES["api"], SERVICES["worker"]]


def test_api_and_worker_are_hardened_and_share_the_data():
    for service in OURS:
        assert service["read_only"] and service["init"] and service["cap_drop"] == ["ALL"]
        assert "data:/data" in service["volumes"]
        assert service["healthcheck"]["test"][:4] == ["CMD", "python", "-m", "streamsvm.service.processes.health"]
    assert f"USER {USER}:{USER}" in (DEPLOY / "Dockerfile").read_text()


def test_the_worker_predicts_files_where_the_api_says_that_they_are():
    api, worker = (service["environment"] for service in OURS)
    places = {name for name in api if re.match("STREAMSVM_(IMPORT|EXPORT)_|AWS_", name)}
    known = {f"STREAMSVM_{name.upper()}" for name in Settings.__dataclass_fields__}
    assert {name for name in known if "IMPORT" in name or "EXPORT" in name} <= places
    assert {name: api[name] for name in places} == worker
    for name, modes in (("IMPORT", (":ro", ":ro")), ("EXPORT", (":ro", ""))):
        place = api[f"STREAMSVM_{name}_DIR"]
        for service, mode in zip(OURS, modes, strict=True):
            assert f".{place}:{place}{mode}" in service["volumes"]


def test_the_cache_is_in_memory_sized_by_one_variable_and_belongs_to_the_user():
    options = compose()["volumes"]["cache"]["driver_opts"]
    assert options["type"] == "tmpfs"
    assert options["o"] == f"size=2g,uid={USER},gid={USER},mode=0700"
    assert (DEPLOY / "compose.yaml").read_text().count("STREAMSVM_SHM_SIZE") == 1
    directory = image_environment()["STREAMSVM_CACHE_DIR"]
    assert f"cache:{directory}" in SERVICES["worker"]["volumes"]
    assert f"cache:{directory}:ro" in SERVICES["api"]["volumes"]


def test_requests_get_their_while_before_the_api_is_killed(tmp_path):
    assert int(SERVICES["api"]["stop_grace_period"].removesuffix("s")) > Settings(tmp_path).shutdown_seconds


def test_a_running_job_is_handed_back_before_the_worker_is_killed():
    assert int(SERVICES["worker"]["stop_grace_period"].removesuffix("s")) > 2 * HAND_BACK_SECONDS


def test_prometheus_and_grafana_start_only_when_asked_for():
    assert {name for name, service in SERVICES.items() if "profiles" not in service} == {"api", "worker"}


def test_variables_of_the_compose_file_are_those_of_the_example_with_the_same_defaults():
    used = dict(re.findall(r"\$\{(\w+):-([^}]*)\}", (DEPLOY / "compose.yaml").read_text()))
    lines = [line for line in (DEPLOY / ".env.example").read_text().splitlines() if line and line[0] != "#"]
    assert dict(line.split("=", 1) for line in lines) == used


def test_settings_are_those_of_the_service():
    known = {f"STREAMSVM_{name.upper()}" for name in Settings.__dataclass_fields__}
    given = image_environment() | SERVICES["api"]["environment"]
    assert {name for name in given if name.startswith("STREAMSVM_")} - known == {"STREAMSVM_KERNELS"}


@pytest.mark.parametrize("service", OURS, ids=("api", "worker"))
def test_commands_are_understood(service, capsys):
    with pytest.raises(SystemExit) as end:
        main([*service["command"], "--help"])
    assert end.value.code == 0 and f"streamsvm {service['command'][0]}" in capsys.readouterr().out


def test_what_is_mounted_and_copied_is_there():
    for service in SERVICES.values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert source in compose()["volumes"] or source in ("./import", "./export") or (DEPLOY / source).exists()
    allowed = (ROOT / ".dockerignore").read_text().splitlines()
    for name in ("api", "service", "reader", "trainer", "storage", "deploy/entrypoint", "deploy/warm.py"):
        assert f"!{name}" in allowed and (ROOT / name).exists()


def expressions() -> list[str]:
    """Return the expressions of the alerts and of the dashboard."""
    rules = yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"][0]["rules"]
    panels = json.loads((DEPLOY / "grafana/dashboards/streamsvm.json").read_text())["panels"]
    return [rule["expr"] for rule in rules] + [target["expr"] for panel in panels for target in panel["targets"]]


@pytest.mark.parametrize("expression", expressions())
def test_metrics_of_alerts_and_dashboard_are_exported(expression, tmp_path):
    app = create_app(Settings(tmp_path))
    app.state.metrics.observe("GET", "/", 200, 0.1)
    exported = set(re.findall(r"^# TYPE (\S+) ", generate_latest(app.state.metrics.registry).decode(), re.MULTILINE))
    used = set(re.findall(r"streamsvm_\w+", expression))
    assert used or expression.startswith("up{")
    assert {re.sub(r"_(sum|count|bucket)$", "", name) for name in used} <= exported


def test_prometheus_asks_the_api_under_a_name_it_knows():
    config = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    (scrape,) = config["scrape_configs"]
    (target,) = scrape["static_configs"][0]["targets"]
    assert target.split(":")[0] in SERVICES["api"]["environment"]["STREAMSVM_ALLOWED_HOSTS"].split(",")
    secret = scrape["authorization"]["credentials_file"].rsplit("/", 1)[1]
    assert secret in SERVICES["prometheus"]["secrets"] and secret in compose()["secrets"]


def test_tokens_are_made_as_the_readme_says():
    lines = re.findall(r"docker compose run .* api (token .*)", (DEPLOY / "README.md").read_text())
    assert lines
    for line in lines:
        words = shlex.split(line.split(">")[0], comments=True)
        with pytest.raises(SystemExit) as end:
            main([*words, "--help"])
        assert end.value.code == 0


def test_with_podman_the_readme_says_itself_what_podman_compose_does_not_read_from_the_file():
    commands = with_podman(DEPLOY / "README.md")
    options = COMPOSE["volumes"]["cache"]["driver_opts"]
    (mounted,) = [line for line in commands if line.startswith("mount ")]
    assert mounted == f"mount -t {options['type']} -o {options['o']} {options['device']} {PLACE}"
    (built,) = [line for line in commands if line.startswith("podman build")]
    assert shlex.split(built)[-2:] == [SERVICES["api"]["image"], SERVICES["api"]["build"]["context"]]
    (volume,) = [line for line in commands if line.startswith("podman volume")]
    assert volume.endswith(f" {COMPOSE['name']}_cache")
    composed = [line for line in commands if line.startswith("podman-compose")]
    assert composed and all(line.startswith(f"podman-compose -p {COMPOSE['name']} ") for line in composed)
    assert composed[-1].split("up -d ")[1].split() == [name for name in SERVICES if "profiles" not in SERVICES[name]]


def test_the_user_of_the_image_can_read_its_kernels():
    """Root compiles them, and what processes of the service write only their own user may read."""
    (step,) = (
        step for step in (ROOT / "deploy/Dockerfile").read_text().split("\nRUN ") if "python /opt/warm.py" in step
    )
    assert "chmod -R a+rX $STREAMSVM_KERNELS" in step.partition("warm.py")[2]
