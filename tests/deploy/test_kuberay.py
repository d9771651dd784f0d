"""deploy/ray/kuberay.yaml hangs together with the compose file beside it, with Ray's ports and with our settings."""

import pytest
import yaml

from streamsvm.service.cluster.nodes.connecting import ROOT_VARIABLE
from tests.deploy.container import DEPLOY

KUBERAY = yaml.safe_load((DEPLOY / "ray/kuberay.yaml").read_text())["spec"]
COMPOSE = yaml.safe_load((DEPLOY / "ray/compose.yaml").read_text())["services"]
(WORKERS,) = KUBERAY["workerGroupSpecs"]
GCS_PORT = 6379  # where `ray start --head` listens if it is not told otherwise


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
