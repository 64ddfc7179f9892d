"""deploy/kubernetes: checked against Kubernetes' own schemas, and for what belongs together."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest
import yaml

from sluice.config.load import check
from sluice.files import project_file

FOLDER = project_file("deploy/kubernetes")
KUSTOMIZATION = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
#: those that are no part of Kubernetes itself
EXTENSIONS = {"PodMonitor"}
MANIFESTS = {
    path.name: yaml.safe_load(path.read_text())
    for path in sorted(FOLDER.glob("*.yaml"))
    if path.name not in {"kustomization.yaml", "pipeline.yaml"}
}
SET = MANIFESTS["stateful-set.yaml"]
POD = SET["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]


@pytest.mark.parametrize("version", ["1.29", "1.33"])
@pytest.mark.parametrize("name", [name for name, one in MANIFESTS.items() if one["kind"] not in EXTENSIONS])
def test_each_manifest_fits_the_schema_of_kubernetes(name, version):
    kubernetes_validate.validate(MANIFESTS[name], version, strict=True)


def test_every_manifest_is_applied():
    said = (FOLDER / "kustomization.yaml").read_text()
    assert {name for name, one in MANIFESTS.items() if one["kind"] not in EXTENSIONS} == set(KUSTOMIZATION["resources"])
    assert all(name in said for name in MANIFESTS)


def test_the_pipeline_is_one_that_check_takes(tmp_path):
    """With a certificate where the secret will be mounted."""
    (tmp_path / "ca.crt").write_text("-----BEGIN CERTIFICATE-----\n")
    environment = {name["name"]: "x" for name in CONTAINER["env"]}
    overrides = {"kafka": {"ssl.ca.location": str(tmp_path / "ca.crt")}}
    found = check(FOLDER / "pipeline.yaml", environment=environment, overrides=overrides)
    assert not found.problems


def test_what_the_pipeline_names_is_mounted():
    pipeline = yaml.safe_load((FOLDER / "pipeline.yaml").read_text())
    mounted = [mount["mountPath"] for mount in CONTAINER["volumeMounts"]]
    for path in (pipeline["checkpoint"], pipeline["kafka"]["ssl.ca.location"], CONTAINER["args"][-1]):
        assert any(path.startswith(f"{mount}/") for mount in mounted), path
    volumes = {one["name"] for one in POD["volumes"]} | {
        one["metadata"]["name"] for one in SET["spec"]["volumeClaimTemplates"]
    }
    assert {mount["name"] for mount in CONTAINER["volumeMounts"]} == volumes


def test_no_secret_stands_in_a_manifest():
    assert not any(one["kind"] == "Secret" for one in MANIFESTS.values())
    for variable in CONTAINER["env"]:
        if "KAFKA" in variable["name"]:
            assert "secretKeyRef" in variable["valueFrom"]


def test_it_is_one_pod_without_rights():
    """As the `restricted` standard of pod security has it, and with a root file system that cannot be written."""
    security: dict[str, Any] = POD["securityContext"] | CONTAINER["securityContext"]
    assert SET["spec"]["replicas"] == 1
    assert security["runAsNonRoot"]
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not security["allowPrivilegeEscalation"]
    assert security["readOnlyRootFilesystem"]
    assert security["capabilities"] == {"drop": ["ALL"]}


def test_users_and_ports_are_the_images():
    dockerfile = project_file("Dockerfile").read_text()
    assert f"USER {POD['securityContext']['runAsUser']}\n" in dockerfile
    assert f"EXPOSE {CONTAINER['ports'][0]['containerPort']}\n" in dockerfile


def test_labels_select_the_pod():
    labels = SET["spec"]["template"]["metadata"]["labels"]
    assert SET["spec"]["selector"]["matchLabels"] == labels
    assert MANIFESTS["service.yaml"]["spec"]["selector"] == labels
    for name in ("network-policy.yaml", "pod-monitor.yaml"):
        spec = MANIFESTS[name]["spec"]
        assert (spec.get("podSelector") or spec["selector"])["matchLabels"] == labels


def test_brokers_can_be_reached():
    """The policy lets out to the port that the pipeline names."""
    pipeline = yaml.safe_load((FOLDER / "pipeline.yaml").read_text())
    port = int(pipeline["kafka"]["bootstrap.servers"].rpartition(":")[2])
    allowed = {one["port"] for rule in MANIFESTS["network-policy.yaml"]["spec"]["egress"] for one in rule["ports"]}
    assert port in allowed
