"""The program of an executor's pod on Kubernetes (service/sluice/spark/java/kubernetes_executor.py)."""

from __future__ import annotations

import zipfile

import pytest

from sluice.spark.java.java_command import spark_home
from sluice.spark.java.kubernetes_executor import ARGUMENTS, CLASS_PATH, MEMORY, PROGRAM, command

#: as Spark sets them for the first executor of two cores
ENVIRONMENT = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@sluice-driver.sluice.svc:7078",
    "SPARK_EXECUTOR_ID": "1",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "1024m",
    "SPARK_APPLICATION_ID": "spark-7",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "sluice-exec-1",
    "SPARK_CLASSPATH": "/opt/sluice/share/sluice/jars/kafka.jar",
    "SPARK_JAVA_OPT_10": "-Dlast=1",
    "SPARK_JAVA_OPT_9": "-Dspark.driver.port=7078",
    "SPARK_USER": "sluice",
}


def test_java_gets_what_spark_has_put_into_the_environment():
    java, *arguments = command(ENVIRONMENT)
    assert java == "java"
    at = arguments.index(PROGRAM)
    options, rest = arguments[:at], arguments[at + 1 :]
    assert {"-Xms1024m", "-Xmx1024m"} < set(options)
    assert options[-4:-2] == ["-Dspark.driver.port=7078", "-Dlast=1"], "in the order of their numbers"
    assert options[-2:] == ["-cp", f"/opt/sluice/share/sluice/jars/kafka.jar:{spark_home()}/jars/*"]
    assert dict(zip(rest[::2], rest[1::2], strict=True)) == {
        "--driver-url": "spark://CoarseGrainedScheduler@sluice-driver.sluice.svc:7078", "--executor-id": "1",
        "--cores": "2", "--app-id": "spark-7", "--hostname": "10.0.0.7", "--resourceProfileId": "0",
        "--podName": "sluice-exec-1",
    }  # fmt: skip


def test_somebody_who_starts_it_elsewhere_reads_what_it_is_for():
    with pytest.raises(SystemExit, match=r"executors on Kubernetes: .*SPARK_DRIVER_URL.* is not set.*sluice run FILE"):
        command({"SPARK_EXECUTOR_ID": "1"})


def test_the_names_are_those_of_this_spark():
    """A new version of Spark may change them: then executors would not start."""
    (jar,) = (spark_home() / "jars").glob("spark-kubernetes_*.jar")
    with zipfile.ZipFile(jar) as classes:
        constants = classes.read("org/apache/spark/deploy/k8s/Constants$.class")
        program = classes.read(f"{PROGRAM.replace('.', '/')}$.class")
    assert not [name for name in (*ARGUMENTS.values(), MEMORY, CLASS_PATH) if name.encode() not in constants]
    assert not [option for option in ARGUMENTS if option.encode() not in program]
    assert b"SPARK_JAVA_OPT_" in constants
