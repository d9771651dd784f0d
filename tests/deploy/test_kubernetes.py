"""deploy/kubernetes and deploy/ray are valid, and hang together with the compose file beside them."""

import kubernetes_validate
import pytest
import yaml

from streamsvm.api.app import create_app
from streamsvm.service.cluster.machine.agent import ROOT_VARIABLE
from streamsvm.service.settings import Settings
from tests.api.app import Service
from tests.deploy.container import DEPLOY, USER, compose, image_environment

KUBERAY = yaml.safe_load((DEPLOY / "ray/kuberay.yaml").read_text())["spec"]
COMPOSE = yaml.safe_load((DEPLOY / "ray/compose.yaml").read_text())["services"]
(WORKERS,) = KUBERAY["workerGroupSpecs"]
GCS_PORT = 6379  # where `ray start --head` listens if it is not told otherwise
DOCUMENTS = {each["kind"]: each for each in yaml.safe_load_all((DEPLOY / "kubernetes/streamsvm.yaml").read_text())}
STATEFUL = DOCUMENTS["StatefulSet"]["spec"]
POD = STATEFUL["template"]["spec"]
API, WORKER = POD["containers"]
SERVICES = compose()["services"]
PAIRS = [(API, SERVICES["api"]), (WORKER, SERVICES["worker"])]
GIBIBYTES = {f"{n}Gi": f"{n}g" for n in range(1, 9)}


@pytest.mark.parametrize("version", ["1.31", kubernetes_validate.latest_version()])
@pytest.mark.parametrize("kind", ["Service", "StatefulSet"])
def test_it_follows_the_schema(kind, version):
    kubernetes_validate.validate(DOCUMENTS[kind], version, strict=True)


def test_one_pod_has_both_containers_of_the_compose_file():
    assert STATEFUL["replicas"] == 1 and [API["name"], WORKER["name"]] == ["api", "worker"]
    for container, service in PAIRS:
        assert (container["image"], container["args"]) == (service["image"], service["command"])
        assert GIBIBYTES[container["resources"]["limits"]["memory"]] == service["mem_limit"]


def test_it_is_as_closed_as_the_compose_file():
    for container, service in PAIRS:
        closed = container["securityContext"]
        assert closed["readOnlyRootFilesystem"] is service["read_only"] is True
        assert closed["capabilities"]["drop"] == service["cap_drop"]
        assert "no-new-privileges:true" in service["security_opt"] and not closed["allowPrivilegeEscalation"]
    pod = POD["securityContext"]
    assert pod["runAsNonRoot"] and {pod["runAsUser"], pod["runAsGroup"], pod["fsGroup"]} == {USER}
    assert pod["seccompProfile"] == {"type": "RuntimeDefault"} and POD["automountServiceAccountToken"] is False
    assert POD["shareProcessNamespace"] is SERVICES["worker"]["init"] is True


def test_volumes_are_where_the_image_looks_for_them():
    environment = image_environment()
    for container, service in PAIRS:
        mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
        ours = [volume for volume in service["volumes"] if volume.split(":")[0] in ("data", "cache")]
        for name, path, *mode in (volume.split(":") for volume in ours):
            assert mounts[path]["name"] == name and mounts[path].get("readOnly", False) == (mode == ["ro"])
        assert {environment["STREAMSVM_DATA_DIR"], environment["STREAMSVM_CACHE_DIR"], "/tmp"} == mounts.keys()
    volumes = {volume["name"]: volume["emptyDir"] for volume in POD["volumes"]}
    assert volumes["cache"] == {"medium": "Memory", "sizeLimit": "2Gi"}
    assert "size=2g" in compose()["volumes"]["cache"]["driver_opts"]["o"]
    claims = [claim["metadata"]["name"] for claim in STATEFUL["volumeClaimTemplates"]]
    names = {mount["name"] for container in (API, WORKER) for mount in container["volumeMounts"]}
    assert names == {*volumes, *claims}


def test_labels_and_ports_lead_to_the_api():
    labels, service = STATEFUL["template"]["metadata"]["labels"], DOCUMENTS["Service"]["spec"]
    assert service["selector"] == STATEFUL["selector"]["matchLabels"] == labels
    assert STATEFUL["serviceName"] == DOCUMENTS["Service"]["metadata"]["name"]
    (port,), (outer,) = API["ports"], service["ports"]
    assert outer["targetPort"] == port["name"] and f":{port['containerPort']}" in SERVICES["api"]["ports"][0]


def test_the_api_answers_its_probes_without_a_token(tmp_path):
    service = Service(tmp_path, host="0.0.0.0")
    service.tokens.new("ada", "admin")
    paths = create_app(Settings(tmp_path)).openapi()["paths"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked = API[probe]["httpGet"]
        assert asked["path"] in paths
        headers = {each["name"]: each["value"] for each in asked["httpHeaders"]}
        # Without a worker the service is alive and not ready.
        assert service.request("GET", asked["path"], headers=headers).status_code in (200, 503)


def test_the_worker_is_asked_as_the_compose_file_asks():
    for probe in ("startupProbe", "livenessProbe"):
        assert ["CMD", *WORKER[probe]["exec"]["command"]] == SERVICES["worker"]["healthcheck"]["test"]


def test_variables_are_settings():
    settings = {f"STREAMSVM_{name.upper()}" for name in Settings.__dataclass_fields__}
    api, worker = ({each["name"]: each["value"] for each in container["env"]} for container in (API, WORKER))
    assert api.keys() <= settings
    # The worker predicts files, which the api has checked.
    assert worker == {name: value for name, value in api.items() if "IMPORT" in name or "EXPORT" in name}
    assert API["envFrom"] == WORKER["envFrom"] and "STREAMSVM_EXPORT_DESTINATIONS" in worker
    grace = int(SERVICES["worker"]["stop_grace_period"].removesuffix("s"))
    assert POD["terminationGracePeriodSeconds"] == grace


def container(group):
    (found,) = group["template"]["spec"]["containers"]
    return found


@pytest.mark.parametrize("group", [KUBERAY["headGroupSpec"], WORKERS], ids=["head", "worker"])
def test_its_pods_are_the_nodes_of_the_compose_file(group):
    given = {each["name"]: each.get("value") for each in container(group)["env"]}
    wanted = COMPOSE["node"]["environment"]
    assert given == {**wanted, "RAY_AUTH_TOKEN": None}  # that is the secret's
    assert container(group)["image"] == COMPOSE["node"]["image"]


def test_probes_ask_where_ray_listens():
    node_manager_port = int(WORKERS["rayStartParams"]["node-manager-port"])
    for group, port in ((KUBERAY["headGroupSpec"], GCS_PORT), (WORKERS, node_manager_port)):
        for probe in ("readinessProbe", "livenessProbe"):
            assert container(group)[probe]["tcpSocket"] == {"port": port}


def test_a_node_keeps_its_blocks_in_a_volume():
    (directory,) = (each["value"] for each in container(WORKERS)["env"] if each["name"] == ROOT_VARIABLE)
    mounted = {mount["mountPath"]: mount["name"] for mount in container(WORKERS)["volumeMounts"]}
    volumes = {volume["name"] for volume in WORKERS["template"]["spec"]["volumes"]}
    assert mounted[directory] in volumes
