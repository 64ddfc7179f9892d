"""deploy/kubernetes-cluster: the pods that Spark asks for become executors of the service."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest
import yaml

from sluice.files import project_file
from sluice.kafka.embedded_broker import free_ports
from tests.cluster.bucket_writers import RECORDS, Parted
from tests.cluster.kubernetes_api import KubernetesApi, Node

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

FOLDER = project_file("deploy/kubernetes-cluster")


def properties() -> dict[str, str]:
    """The properties of Spark that the deployment sets, with addresses and sizes of this machine."""
    deployment: dict[str, Any] = yaml.safe_load((FOLDER / "deployment.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    prefix = "SLUICE_SPARK_"
    found = {
        one["name"].removeprefix(prefix).replace("_", "."): one["value"]
        for one in container["env"]
        if one["name"].startswith(prefix) and "value" in one
    }
    port, blocks = free_ports(2)
    here = {"driver.host": "127.0.0.1", "driver.bindAddress": "127.0.0.1", "driver.port": str(port)}
    # The executors of this machine cannot all have the same port, as pods can.
    here |= {"driver.blockManager.port": str(blocks), "blockManager.port": "0"}
    # Without the API's watches Spark asks for the list of its pods.
    here |= {"kubernetes.executor.enableApiWatcher": "false", "executor.cores": "1", "driver.memory": "1g"}
    return found | here | {"kubernetes.executor.podTemplateFile": str(FOLDER / "executor-pod.yaml")}


def test_the_executors_of_the_service_are_the_pods_that_spark_creates(stack, broker, tmp_path, local):
    node = Node(stack, tmp_path)
    api = KubernetesApi(stack, node.start)
    cluster = Parted(stack, broker, tmp_path, "on-kubernetes", f"k8s://{api.url}")
    cluster.send(RECORDS)
    cluster.service.start(cluster.master, properties())
    pods = [*api.pods.values()]
    assert len(pods) == 2
    for pod in pods:
        kubernetes_validate.validate({key: pod[key] for key in ("apiVersion", "kind", "metadata", "spec")}, "1.33")
        assert pod["metadata"]["labels"]["app.kubernetes.io/name"] == "sluice-executor"
        assert pod["spec"]["containers"][0]["image"] == properties()["kubernetes.container.image"]
        assert pod["spec"]["containers"][0]["args"] == ["executor"]
        assert pod["spec"]["securityContext"]["runAsUser"] == 10001
    cluster.check(local)
    assert "executors: 1 (127.0.0.1) has 0, 2 (127.0.0.1) has 1" in cluster.service.log.read_text()
    cluster.service.end()
    assert api.pods == {}, "the driver has ended the pods"
