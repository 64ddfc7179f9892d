"""deploy/kubernetes: checked against Kubernetes' own schemas, and for what belongs together."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import kubernetes_validate
import pytest
import yaml

from sluice.config.load import check
from sluice.files import project_file
from sluice.planning.pipeline_set import Link, cautions, links, problems
from sluice.running.service_options import files_in

FOLDER = project_file("deploy/kubernetes")
KUSTOMIZATION = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
#: those that are no part of Kubernetes itself
EXTENSIONS = {"PodMonitor", "PrometheusRule"}
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


#: the folders of pipelines that have a pod each
PODS = sorted(path.parent for path in project_file("deploy/kubernetes-pods").glob("*/kustomization.yaml"))
FOLDERS = [FOLDER, *PODS]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_pipeline_is_one_that_check_takes(folder, tmp_path):
    """With a certificate where the secret will be mounted."""
    (tmp_path / "ca.crt").write_text("-----BEGIN CERTIFICATE-----\n")
    environment = {name["name"]: "x" for name in CONTAINER["env"]}
    overrides = {"kafka": {"ssl.ca.location": str(tmp_path / "ca.crt")}}
    found = check(folder / "pipeline.yaml", environment=environment, overrides=overrides)
    assert not found.problems


@pytest.mark.parametrize("folder", PODS, ids=lambda folder: folder.name)
def test_a_pod_of_a_pipeline_has_names_and_labels_of_its_own(folder):
    overlay = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert overlay["resources"] == ["../../kubernetes"]
    assert overlay["nameSuffix"] == f"-{folder.name}"
    assert overlay["labels"] == [{"pairs": {"app.kubernetes.io/instance": folder.name}, "includeSelectors": True}]
    (base,), (own,) = KUSTOMIZATION["configMapGenerator"], overlay["configMapGenerator"]
    assert own == base | {"behavior": "replace"}
    assert yaml.safe_load((folder / "pipeline.yaml").read_text())["pipeline"] == folder.name


def test_the_pipelines_of_the_pods_share_neither_checkpoint_nor_output():
    pipelines = [yaml.safe_load((folder / "pipeline.yaml").read_text()) for folder in PODS]
    assert len({pipeline["checkpoint"] for pipeline in pipelines}) == len(PODS)
    written = [stream["topic"] for one in pipelines for stream in one["streams"].values() if "schema" not in stream]
    assert len(written) == len(set(written))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_what_the_pipeline_names_is_mounted(folder):
    pipeline = yaml.safe_load((folder / "pipeline.yaml").read_text())
    mounted = [mount["mountPath"] for mount in CONTAINER["volumeMounts"]]
    for path in (pipeline["checkpoint"], pipeline["kafka"]["ssl.ca.location"], CONTAINER["args"][1]):
        assert any(path.startswith(f"{mount}/") for mount in mounted), path
    volumes = {one["name"] for one in POD["volumes"]} | {
        one["metadata"]["name"] for one in SET["spec"]["volumeClaimTemplates"]
    }
    assert {mount["name"] for mount in CONTAINER["volumeMounts"]} == volumes


def test_the_alerts_of_the_operator_are_those_of_prometheus():
    """Else: python deploy/kubernetes/make_prometheus_rule.py > deploy/kubernetes/prometheus-rule.yaml."""
    made = subprocess.run(
        [sys.executable, FOLDER / "make_prometheus_rule.py"], capture_output=True, text=True, check=True
    )
    assert (FOLDER / "prometheus-rule.yaml").read_text() == made.stdout
    rules = yaml.safe_load(project_file("deploy/prometheus/rules.yml").read_text())
    assert MANIFESTS["prometheus-rule.yaml"]["spec"] == rules


def test_the_operator_scrapes_the_pods_with_a_job_that_the_alerts_select():
    """The operator names the job of a PodMonitor `<namespace>/<name>`."""
    place = MANIFESTS["pod-monitor.yaml"]["metadata"]
    selected = set(re.findall(r'job=~"([^"]*)"', (FOLDER / "prometheus-rule.yaml").read_text()))
    assert selected
    assert all(re.fullmatch(pattern, f"{place['namespace']}/{place['name']}") for pattern in selected)


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


# ---- a folder of pipelines -------------------------------------------------------------------------------------------

SEVERAL = project_file("deploy/kubernetes-folder")
OVERLAY = yaml.safe_load((SEVERAL / "kustomization.yaml").read_text())
PATCHES = [(patch["target"], change) for patch in OVERLAY["patches"] for change in yaml.safe_load(patch["patch"])]


@pytest.mark.parametrize(("target", "change"), PATCHES, ids=[change["path"] for _, change in PATCHES])
def test_each_patch_replaces_what_the_one_pod_has(target, change):
    assert (target["kind"], target["name"], change["op"]) == (SET["kind"], SET["metadata"]["name"], "replace")
    place: Any = SET
    for step in change["path"].strip("/").split("/"):
        place = place[int(step) if step.isdigit() else step]
    assert type(place) is type(change["value"])
    assert place != change["value"]


def test_the_pod_of_a_folder_runs_the_folder_that_is_mounted():
    ((_, change),) = PATCHES
    run, folder, master, option, checkpoints = change["value"]
    mounted = [mount["mountPath"] for mount in CONTAINER["volumeMounts"]]
    assert [run, master] == [CONTAINER["args"][0], *CONTAINER["args"][2:]]
    assert option == "--checkpoint"
    assert {folder, checkpoints} < set(mounted)


def test_the_config_map_of_a_folder_takes_the_place_of_the_one_file_and_keeps_its_name():
    (one,), (several,) = KUSTOMIZATION["configMapGenerator"], OVERLAY["configMapGenerator"]
    assert (several["name"], several["behavior"]) == (one["name"], "replace")
    assert several["options"] == {"disableNameSuffixHash": True}
    assert {SEVERAL / file for file in several["files"]} == {*(SEVERAL / "pipelines").iterdir()}


def test_the_pipelines_of_the_folder_do_not_disturb_each_other(tmp_path):
    (tmp_path / "ca.crt").write_text("-----BEGIN CERTIFICATE-----\n")
    environment = {name["name"]: "x" for name in CONTAINER["env"]}
    overrides = {"kafka": {"ssl.ca.location": str(tmp_path / "ca.crt")}}
    found = {
        path.name: check(path, environment=environment, overrides=overrides) for path in files_in(SEVERAL / "pipelines")
    }
    assert not any(one.problems for one in found.values())
    pipelines = {file: one.pipeline for file, one in found.items() if one.pipeline is not None}
    assert (problems(pipelines), cautions(pipelines)) == ([], [])
    assert links([*pipelines.values()]) == [Link("trades.average", "moving-average", "large-averages")]


# ---- a leader and a standby ------------------------------------------------------------------------------------------

STANDBY = project_file("deploy/kubernetes-standby")
PAIR = {path.name: yaml.safe_load(path.read_text()) for path in sorted(STANDBY.glob("*.yaml"))}
DEPLOYMENT, BUDGET = PAIR["deployment.yaml"], PAIR["disruption-budget.yaml"]
PAIR_POD = DEPLOYMENT["spec"]["template"]["spec"]
(PAIR_CONTAINER,) = PAIR_POD["containers"]


@pytest.mark.parametrize("version", ["1.29", "1.33"])
@pytest.mark.parametrize("manifest", [DEPLOYMENT, BUDGET], ids=lambda one: one["kind"])
def test_the_manifests_of_a_pair_fit_the_schema_of_kubernetes(manifest, version):
    kubernetes_validate.validate(manifest, version, strict=True)


def test_the_deployment_takes_the_place_of_the_stateful_set():
    overlay = PAIR["kustomization.yaml"]
    assert overlay["resources"] == ["../kubernetes", "deployment.yaml", "disruption-budget.yaml"]
    assert overlay["images"] == KUSTOMIZATION["images"]
    removed, policy = overlay["patches"]
    assert removed["target"] == {"kind": SET["kind"], "name": SET["metadata"]["name"]}
    assert yaml.safe_load(removed["patch"])["$patch"] == "delete"
    (egress,) = yaml.safe_load(policy["patch"])
    assert (policy["target"]["kind"], egress["op"], egress["path"]) == ("NetworkPolicy", "add", "/spec/egress/-")


def test_a_pair_is_two_pods_that_wait_for_the_lead_and_have_no_volume_claim():
    assert DEPLOYMENT["spec"]["replicas"] == 2
    assert DEPLOYMENT["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert BUDGET["spec"]["minAvailable"] == 1
    assert PAIR_CONTAINER["args"] == [*CONTAINER["args"], "--standby"]
    volumes = {one["name"]: one for one in PAIR_POD["volumes"]}
    assert "emptyDir" in volumes["checkpoints"]
    assert {mount["name"] for mount in PAIR_CONTAINER["volumeMounts"]} == set(volumes)
    assert not any("persistentVolumeClaim" in one for one in volumes.values())


def test_a_pod_of_a_pair_is_otherwise_the_one_pod():
    assert DEPLOYMENT["spec"]["selector"] == SET["spec"]["selector"]
    assert DEPLOYMENT["spec"]["template"]["metadata"] == SET["spec"]["template"]["metadata"]
    for key in ("startupProbe", "livenessProbe", "readinessProbe", "securityContext", "volumeMounts", "ports", "image"):
        assert PAIR_CONTAINER[key] == CONTAINER[key], key
    assert PAIR_POD["securityContext"] == POD["securityContext"]
    assert BUDGET["spec"]["selector"] == SET["spec"]["selector"]


def test_the_pipeline_of_a_pair_keeps_its_snapshots_in_an_object_store(tmp_path):
    (tmp_path / "ca.crt").write_text("-----BEGIN CERTIFICATE-----\n")
    environment = {variable["name"]: "x" for variable in PAIR_CONTAINER["env"]}
    overrides = {"kafka": {"ssl.ca.location": str(tmp_path / "ca.crt")}}
    found = check(STANDBY / "pipeline.yaml", environment=environment, overrides=overrides)
    assert not found.problems
    one = yaml.safe_load((FOLDER / "pipeline.yaml").read_text())
    del one["durability"]
    assert PAIR["pipeline.yaml"] == one | {key: PAIR["pipeline.yaml"][key] for key in ("state", "snapshot_interval")}
    assert PAIR["pipeline.yaml"]["state"].startswith("s3://")
    secrets = [variable for variable in PAIR_CONTAINER["env"] if variable["name"].startswith(("KAFKA", "AWS"))]
    assert all("secretKeyRef" in variable["valueFrom"] for variable in secrets)


def test_a_slow_start_of_a_new_pod_is_no_failed_rollout():
    """The default is ten minutes."""
    assert DEPLOYMENT["spec"]["progressDeadlineSeconds"] >= 3600


# ---- a driver and executors ------------------------------------------------------------------------------------------

CLUSTER = project_file("deploy/kubernetes-cluster")
PARTS = {path.name: yaml.safe_load(path.read_text()) for path in sorted(CLUSTER.glob("*.yaml"))}
DRIVER, EXECUTOR = PARTS["deployment.yaml"], PARTS["executor-pod.yaml"]
DRIVER_POD, EXECUTOR_POD = DRIVER["spec"]["template"]["spec"], EXECUTOR["spec"]
(DRIVER_CONTAINER,), (EXECUTOR_CONTAINER,) = DRIVER_POD["containers"], EXECUTOR_POD["containers"]
#: the properties of Spark that the deployment sets
PROPERTIES = {
    one["name"].removeprefix("SLUICE_SPARK_").replace("_", "."): one.get("value")
    for one in DRIVER_CONTAINER["env"]
    if one["name"].startswith("SLUICE_SPARK_")
}


@pytest.mark.parametrize("version", ["1.29", "1.33"])
@pytest.mark.parametrize("name", sorted(PARTS.keys() - {"kustomization.yaml", "pipeline.yaml", "executor-pod.yaml"}))
def test_the_manifests_of_a_cluster_fit_the_schema_of_kubernetes(name, version):
    kubernetes_validate.validate(PARTS[name], version, strict=True)


@pytest.mark.parametrize("version", ["1.29", "1.33"])
def test_the_template_of_executors_fits_the_schema_when_spark_has_completed_it(version):
    completed = EXECUTOR | {"metadata": EXECUTOR["metadata"] | {"name": "sluice-exec-1"}}
    completed["spec"] = EXECUTOR_POD | {"containers": [EXECUTOR_CONTAINER | {"image": "sluice", "args": ["executor"]}]}
    kubernetes_validate.validate(completed, version, strict=True)


def test_each_manifest_of_a_cluster_is_applied_and_the_template_is_mounted_where_spark_reads_it():
    overlay = PARTS["kustomization.yaml"]
    assert set(overlay["resources"]) == {"../kubernetes", *PARTS} - {
        "kustomization.yaml", "pipeline.yaml", "executor-pod.yaml",
    }  # fmt: skip
    assert overlay["images"] == KUSTOMIZATION["images"]
    pipeline, template = overlay["configMapGenerator"]
    assert (pipeline["name"], pipeline["behavior"]) == ("sluice-pipeline", "replace")
    assert template == {"name": "sluice-executor", "files": ["executor-pod.yaml"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in DRIVER_CONTAINER["volumeMounts"]}
    assert PROPERTIES["kubernetes.executor.podTemplateFile"] == f"{mounts['executor']}/executor-pod.yaml"
    assert PROPERTIES["kubernetes.executor.podTemplateContainerName"] == EXECUTOR_CONTAINER["name"]
    (volume,) = (one for one in DRIVER_POD["volumes"] if one["name"] == "executor")
    assert volume["configMap"]["name"] == template["name"]


def test_executors_reach_the_driver_before_it_is_ready():
    service, spec = PARTS["driver-service.yaml"], DRIVER["spec"]
    metadata = service["metadata"]
    assert PROPERTIES["driver.host"] == f"{metadata['name']}.{metadata['namespace']}.svc"
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"]
    assert service["spec"]["selector"] == spec["template"]["metadata"]["labels"] == spec["selector"]["matchLabels"]
    ports = {one["name"]: one["containerPort"] for one in DRIVER_CONTAINER["ports"]}
    assert {one["targetPort"]: one["port"] for one in service["spec"]["ports"]} == {
        name: ports[name] for name in ("driver", "blocks")
    }
    assert (ports["driver"], ports["blocks"]) == (
        int(PROPERTIES["driver.port"]), int(PROPERTIES["blockManager.port"]),
    )  # fmt: skip
    assert ports["http"] == CONTAINER["ports"][0]["containerPort"]


def allowed(policy: dict[str, Any], way: str, peer: str) -> set[int]:
    """The ports to which the policy lets pods with this label, in this direction ("from" or "to")."""
    rules = policy["spec"]["ingress" if way == "from" else "egress"]
    labels = {"matchLabels": {"app.kubernetes.io/name": peer}}
    return {
        port["port"]
        for rule in rules
        if any(one.get("podSelector") == labels for one in rule.get(way, ()))
        for port in rule["ports"]
    }


def test_the_policies_let_driver_executors_and_brokers_reach_each_other():
    own, overlay = PARTS["executor-policy.yaml"], PARTS["kustomization.yaml"]
    added = [(one["path"], one["value"]) for one in yaml.safe_load(overlay["patches"][1]["patch"])]
    drivers = {
        "spec": {way: [rule for path, rule in added if path == f"/spec/{way}/-"] for way in ("ingress", "egress")}
    }
    driver, blocks = int(PROPERTIES["driver.port"]), int(PROPERTIES["blockManager.port"])
    assert allowed(drivers, "from", "sluice-executor") == {driver, blocks} == allowed(own, "to", "sluice")
    assert allowed(drivers, "to", "sluice-executor") == {blocks} == allowed(own, "from", "sluice")
    assert allowed(own, "from", "sluice-executor") == {blocks} == allowed(own, "to", "sluice-executor")
    kafka = int(PARTS["pipeline.yaml"]["kafka"]["bootstrap.servers"].rpartition(":")[2])
    assert kafka in {port["port"] for rule in own["spec"]["egress"] for port in rule["ports"]}
    assert own["spec"]["podSelector"]["matchLabels"] == EXECUTOR["metadata"]["labels"]
    assert {443, 6443} == {port["port"] for path, rule in added if "to" not in rule and path == "/spec/egress/-"
                           for port in rule["ports"]}  # fmt: skip


def test_the_driver_alone_may_do_something_in_the_cluster_namely_with_pods():
    role, binding = PARTS["role.yaml"], PARTS["role-binding.yaml"]
    (rule,) = role["rules"]
    assert (role["kind"], rule["resources"]) == ("Role", ["pods"])
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    (subject,) = binding["subjects"]
    assert subject["name"] == DRIVER_POD["serviceAccountName"]
    assert DRIVER_POD["automountServiceAccountToken"]
    assert not EXECUTOR_POD["automountServiceAccountToken"]
    # Spark would make a ConfigMap for the executors, and delete Services.
    assert PROPERTIES["kubernetes.executor.disableConfigMap"] == "true"
    assert PROPERTIES["kubernetes.driver.service.deleteOnTermination"] == "false"


def test_an_executor_is_an_image_of_the_same_version_with_the_same_user_and_without_rights():
    (image,) = KUSTOMIZATION["images"]
    assert PROPERTIES["kubernetes.container.image"] == f"{image['newName']}:{image['newTag']}"
    assert PROPERTIES["kubernetes.namespace"] == KUSTOMIZATION["namespace"]
    assert EXECUTOR_POD["securityContext"] == POD["securityContext"]
    assert EXECUTOR_CONTAINER["securityContext"] == CONTAINER["securityContext"]
    init, _, python, _, module = EXECUTOR_CONTAINER["command"]
    assert (init, python) == ("tini", "python")
    assert project_file(f"service/{module.replace('.', '/')}.py").exists()
    assert DRIVER_CONTAINER["args"][-1] == "--master=k8s://https://kubernetes.default.svc"


def test_driver_and_executors_have_the_checkpoint_and_the_certificate_at_one_path():
    claim, pipeline = PARTS["claim.yaml"], PARTS["pipeline.yaml"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    for pod, container in ((DRIVER_POD, DRIVER_CONTAINER), (EXECUTOR_POD, EXECUTOR_CONTAINER)):
        volumes = {one["name"]: one for one in pod["volumes"]}
        assert volumes["checkpoints"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
        mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
        assert mounts.keys() == volumes.keys()
        assert pipeline["checkpoint"].startswith(f"{mounts['checkpoints']}/")
        assert pipeline["kafka"]["ssl.ca.location"].startswith(f"{mounts['kafka']}/")


def test_the_pipeline_of_a_cluster_has_a_bucket_for_each_core_and_the_buckets_write():
    pipeline = PARTS["pipeline.yaml"]
    cores = int(PROPERTIES["executor.instances"]) * int(PROPERTIES["executor.cores"])
    assert pipeline["buckets"] == cores
    assert pipeline["streams"]["averages"]["partitions"] % cores == 0
    java = {one["name"]: one["value"] for one in EXECUTOR_CONTAINER["env"]}["JAVA_TOOL_OPTIONS"]
    assert java == f"-XX:ActiveProcessorCount={PROPERTIES['executor.cores']}"


def test_the_driver_is_otherwise_the_one_pod():
    for key in ("startupProbe", "livenessProbe", "readinessProbe", "securityContext", "resources", "image"):
        assert DRIVER_CONTAINER[key] == CONTAINER[key], key
    assert DRIVER_POD["securityContext"] == POD["securityContext"]
    assert (DRIVER["spec"]["replicas"], DRIVER["spec"]["strategy"]) == (1, {"type": "Recreate"})


# ---- what holds for all folders --------------------------------------------------------------------------------------

WORKLOADS = {
    "one pod": (SET, POD, CONTAINER),
    "a pair": (DEPLOYMENT, PAIR_POD, PAIR_CONTAINER),
    "a driver": (DRIVER, DRIVER_POD, DRIVER_CONTAINER),
}
PIPELINES = {
    path.relative_to(FOLDER.parent).as_posix(): yaml.safe_load(path.read_text())
    for path in sorted(FOLDER.parent.glob("kubernetes*/**/*.yaml"))
    if "pipeline" in (yaml.safe_load(path.read_text()) or {})
}
GIB = re.compile(r"(\d+)Gi")


def gib(size: str) -> int:
    found = GIB.fullmatch(size)
    assert found, size
    return int(found[1])


def test_all_pipelines_are_found():
    expected = {"kubernetes", "kubernetes-cluster", "kubernetes-folder", "kubernetes-pods", "kubernetes-standby"}
    assert {name.partition("/")[0] for name in PIPELINES} == expected


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_start_may_take_any_time(name):
    """/readyz is 503 while a checkpoint is restored, and a start that is killed restores it from the beginning."""
    _, _, container = WORKLOADS[name]
    paths = {probe: container[f"{probe}Probe"]["httpGet"]["path"] for probe in ("startup", "liveness", "readiness")}
    assert paths == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}


def test_no_overlay_changes_a_probe():
    for overlay in FOLDER.parent.glob("kubernetes*/**/kustomization.yaml"):
        assert "Probe" not in overlay.read_text()


def test_a_pod_that_is_not_ready_is_replaced():
    """With OrderedReady a set waits for a pod that never becomes ready, also after a correction."""
    assert SET["spec"]["podManagementPolicy"] == "Parallel"


@pytest.mark.parametrize("name", PIPELINES)
def test_a_volume_that_is_the_only_copy_of_the_state_survives_a_loss_of_power(name):
    pipeline = PIPELINES[name]
    assert ("state" in pipeline) != (pipeline.get("durability") == "machine")


@pytest.mark.parametrize("name", WORKLOADS)
def test_logs_have_room_beside_the_volumes_of_the_node(name):
    _, pod, container = WORKLOADS[name]
    volumes = sum(gib(one["emptyDir"]["sizeLimit"]) for one in pod["volumes"] if "emptyDir" in one)
    assert gib(container["resources"]["limits"]["ephemeral-storage"]) > volumes > 0


@pytest.mark.parametrize("name", WORKLOADS)
def test_spark_java_and_buckets_use_the_cores_that_the_pod_requests(name):
    """Without these settings each of them takes the number of the node's cores."""
    _, _, container = WORKLOADS[name]
    cores = container["resources"]["requests"]["cpu"]
    environment = {one["name"]: one.get("value") for one in container["env"]}
    assert f"--master=local[{cores}]" in container["args"] or container is DRIVER_CONTAINER
    assert environment["JAVA_TOOL_OPTIONS"] == f"-XX:ActiveProcessorCount={cores}"
    inside = [pipeline for name, pipeline in PIPELINES.items() if not name.startswith("kubernetes-cluster/")]
    assert all(pipeline["buckets"] == int(cores) for pipeline in inside)


DEPLOYMENT_PAGE = project_file("docs/deployment.md").read_text()


def test_the_documented_command_has_all_that_a_check_of_these_pipelines_needs():
    command = next(block for block in DEPLOYMENT_PAGE.split("```sh\n") if block.startswith("docker run --rm "))
    for name, pipeline in PIPELINES.items():
        kafka = pipeline["kafka"]
        assert f":{kafka['ssl.ca.location']}:ro" in command, name
        for key in ("sasl.username", "sasl.password"):
            assert f"-e {kafka[key].removeprefix('${').removesuffix('}')}=x" in command, name


@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_says_where_the_command_that_checks_it_is(name):
    text = (FOLDER.parent / name).read_text()
    (section,) = re.findall(r'docs/deployment\.md, "([^"]+)"', text)
    assert f"### {section}\n" in DEPLOYMENT_PAGE


def test_the_schema_registry_of_the_example_is_a_rule_that_fits():
    """The rules in the comments of the policy are valid when the comment is removed."""
    text = (FOLDER / "network-policy.yaml").read_text()
    head, _, example = text.partition("    # A schema registry, if the pipeline names one:\n")
    policy = yaml.safe_load(head + example.replace("    # ", "    "))
    kubernetes_validate.validate(policy, "1.29", strict=True)
    assert len(policy["spec"]["egress"]) == len(MANIFESTS["network-policy.yaml"]["spec"]["egress"]) + 1
