"""The project of deploy/compose.yaml, brought up by podman as deploy/README.md says, and requests to it."""

import re
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import httpx

from tests.containers.engine import Engine
from tests.end_to_end.service import ENDED, PATIENCE_SECONDS, wait_for

PLACE = "/srv/streamsvm-cache"
_SLOW_SECONDS = 300


def with_podman(readme: Path) -> list[str]:
    """The commands that bring it up the first time."""
    section = readme.read_text().split("## With podman\n")[1]
    block = re.search(r"```sh\n(.*?)```", section, re.DOTALL)[1]
    return block.splitlines()


class Project:
    """A copy of deploy/, its settings, its containers."""

    def __init__(self, engine: Engine, deploy: Path, folder: Path) -> None:
        self._engine, self.folder = engine, folder
        self.place(deploy)
        self.token = ""
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._address = f"127.0.0.1:{free.getsockname()[1]}"
        self.url = f"http://{self._address}"
        self._client = httpx.Client(base_url=self.url, timeout=PATIENCE_SECONDS)

    def place(self, deploy: Path) -> None:
        """Take the files of another version; the settings stay."""
        shutil.copytree(deploy, self.folder, dirs_exist_ok=True)

    def bring_up(self, readme: Path, **settings: str) -> None:
        """Do what the README says, with these settings in .env; the image is there already."""
        for line in with_podman(readme):
            if line.startswith("podman build"):
                continue
            if line.startswith("mount"):
                line = line.replace("size=2g", f"size={settings.get('STREAMSVM_SHM_SIZE', '2g')}")
            printed = self.type(line)
            if line.startswith("cp .env.example .env"):
                self.set(STREAMSVM_PUBLISH=self._address, **settings)
            if "token new" in line:
                (self.token,) = re.findall(r"^ssvm_\S+$", printed, re.MULTILINE)
        self._client.headers["Authorization"] = f"Bearer {self.token}"

    def set(self, **settings: str) -> None:
        """Change lines of .env."""
        text = (self.folder / ".env").read_text()
        for name, value in settings.items():
            text, found = re.subn(rf"^{name}=.*$", f"{name}={value}", text, flags=re.MULTILINE)
            assert found == 1
        (self.folder / ".env").write_text(text)

    def compose(self, *arguments: str) -> str:
        """`podman-compose ...`, in the folder."""
        return self._engine.run("podman-compose", "-p", "streamsvm", *arguments, cwd=self.folder)

    def type(self, command: str) -> str:
        """A line of the README, as it stands but for where the cache is mounted."""
        command = command.replace(PLACE, str(self.folder / "cache"))
        return self._engine.run("bash", "-euo", "pipefail", "-c", command, cwd=self.folder)

    def request(self, method: str, path: str, **options: Any) -> Any:
        """The JSON of the answer, as soon as there is one."""
        answer = wait_for(lambda: self._answer(method, path, options), _SLOW_SECONDS)
        assert answer.is_success, answer.text
        return answer.json()

    def submit(self, **spec: object) -> str:
        """A job's id."""
        return self.request("POST", "/v1/jobs", json=spec)["id"]

    def job(self, job: str) -> dict[str, Any]:
        """What the service shows of a job."""
        return self.request("GET", f"/v1/jobs/{job}")

    def wait_for_pass(self, job: str, number: int, attempt: int = 1) -> dict[str, Any]:
        """The job in that pass or a later one, in that attempt or a later one."""

        def there() -> dict[str, Any] | None:
            shown = self.job(job)
            assert shown["state"] not in ENDED, shown
            reached = (shown["progress"] or {"pass": 0})["pass"] >= number and shown["attempt"] >= attempt
            return shown if reached and shown["state"] == "running" else None

        return wait_for(there, _SLOW_SECONDS)

    def wait_until_ended(self, job: str, seconds: float = _SLOW_SECONDS) -> dict[str, Any]:
        """The job once it has ended."""
        return wait_for(lambda: (shown := self.job(job))["state"] in ENDED and shown, seconds)

    def kill(self, service: str) -> None:
        """SIGKILL to the first process of a container from outside, as the kernel would; with it all others end."""
        pid = self.inspect(service, "{{.State.Pid}}")
        subprocess.run(["kill", "-KILL", pid], check=True)
        wait_for(lambda: not Path(f"/proc/{pid}").exists())

    def is_healthy(self, service: str) -> bool:
        """What its health check says; systemd, which would ask again and again, need not be there."""
        command = ["podman", "healthcheck", "run", f"streamsvm_{service}_1"]
        return subprocess.run(command, env=self._engine.environment, capture_output=True, check=False).returncode == 0

    def inspect(self, service: str, what: str) -> str:
        """A fact about its container."""
        return self._engine.podman("inspect", "--format", what, f"streamsvm_{service}_1").strip()

    def down(self) -> None:
        """No container of it is left, but its volumes."""
        self.compose("down", "-t", "60")

    def close(self) -> None:
        """Nothing is left."""
        self._client.close()
        self.compose("down", "-t", "0")
        self._engine.podman("volume", "rm", "--all", "--force")
        subprocess.run(["umount", "--lazy", self.folder / "cache"], check=False, capture_output=True)

    def _answer(self, method: str, path: str, options: dict[str, Any]) -> httpx.Response | None:
        try:
            return self._client.request(method, path, **options)
        except httpx.TransportError:
            return None
