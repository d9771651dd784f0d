"""The pods of deploy/ray/kuberay.yaml as KubeRay's operator makes them, each a container of podman.

What an operator adds to a template: a shell that runs the template's command and then `ray start`, a container before
a worker's that waits for the head, and probes of its own where the template has none.
"""

import json
import shlex
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from tests.containers.engine import Engine
from tests.end_to_end.service import wait_for

TOKEN = "5" * 64
_GIVEN = {"metrics-export-port": 8080, "dashboard-agent-listen-port": 52365}
_SECONDS = 300  # until a pod is ready


class Pods:
    """A cluster's; `engine` runs them, in a network of their own."""

    def __init__(self, engine: Engine, file: Path) -> None:
        document = yaml.safe_load(file.read_text())
        self._engine, self._spec, self._name = engine, document["spec"], document["metadata"]["name"]
        self._names: list[str] = []

    def start(self, workers: int) -> None:
        """The head, and so many workers, each ready by its own probes."""
        self._engine.podman("network", "create", self._name)
        head, (group,) = self._spec["headGroupSpec"], self._spec["workerGroupSpecs"]
        self._start("head", head, f"{self._name}-head-svc", "-lc", {"head": True, "dashboard-host": "0.0.0.0"})
        address = f"{self._name}-head-svc:6379"
        for number in range(1, workers + 1):
            shell = "-lc" if number % 2 else "-c"  # operators before 1.4, and since
            self._wait_for_head(group, shell, address)
            self._start(f"node_{number}", group, f"node-{number}", shell, {"address": address})

    def close(self) -> None:
        """Leave nothing."""
        for name in self._names:
            self._engine.podman("rm", "--force", "--time", "0", name)
        self._engine.podman("network", "rm", self._name)

    def _start(self, pod: str, group: dict[str, Any], host: str, shell: str, parameters: dict[str, object]) -> None:
        container = _container(group)
        parameters = {**parameters, **_GIVEN, **group["rayStartParams"], "block": True}
        words = [f"--{key}" if value is True else f"--{key}={value}" for key, value in parameters.items()]
        script = f"{' '.join(container['args'])} && ulimit -n 65536; ray start {shlex.join(words)}"
        mounts = [
            f"--volume={self._empty_directory(pod, mount['name'])}:{mount['mountPath']}"
            for mount in container.get("volumeMounts", ())
            if mount["mountPath"] != "/dev/shm"
        ]
        name = f"{self._name}_{pod}"
        self._names.append(name)
        self._podman_run(container, shell, script, f"--name={name}", f"--network-alias={host}", "--detach", *mounts)
        (about,) = json.loads(self._engine.podman("inspect", name))
        address = about["NetworkSettings"]["Networks"][self._name]["IPAddress"]
        for probe in ("readinessProbe", "livenessProbe"):
            wait_for(lambda port=container[probe]["tcpSocket"]["port"]: _listens(address, port), _SECONDS)

    def _empty_directory(self, pod: str, volume: str) -> Path:
        directory = self._engine.folder / "tmp" / f"{pod}-{volume}"
        directory.mkdir()
        directory.chmod(0o777)  # it belongs to root, and anyone may write to it
        return directory

    def _wait_for_head(self, group: dict[str, Any], shell: str, address: str) -> None:
        script = f"until ray health-check --address {address}; do sleep 5; done"
        self._podman_run(_container(group), shell, script, "--rm")

    def _podman_run(self, container: dict[str, Any], shell: str, script: str, *options: str) -> None:
        given = [f"--env={each['name']}={each.get('value', TOKEN)}" for each in container["env"]]
        entrypoint = json.dumps(["/bin/bash", shell, "--"])
        # Only podman gives the image's user a line in /etc/passwd.
        fixed = [f"--network={self._name}", "--passwd=false", "--shm-size=1g", f"--entrypoint={entrypoint}"]
        self._engine.podman("run", *fixed, *given, *options, container["image"], script)


def _container(group: dict[str, Any]) -> dict[str, Any]:
    (container,) = group["template"]["spec"]["containers"]
    return container


def _listens(address: str, port: int) -> bool:
    with suppress(OSError), socket.create_connection((address, port), timeout=1):
        return True
    return False
