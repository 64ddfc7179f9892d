"""The command that starts Spark's Java process, in place of the one that `spark-submit` computes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sluice.spark.java.java_command import LAUNCHER, PROGRAM, java_command, spark_home
from sluice.spark.java.java_process import driver_properties

PROPERTIES = {"spark.driver.memory": "2g"}
ENVIRONMENT = {"PATH": os.environ["PATH"]}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with the jar that names the version of Spark, and one that comes first."""
    for name in (LAUNCHER, "slf4j-api-2.jar"):
        (tmp_path / "spark" / "jars").mkdir(parents=True, exist_ok=True)
        (tmp_path / "spark" / "jars" / name).touch()
    return tmp_path / "spark"


def is_submitted(home: Path, properties: dict[str, str] = PROPERTIES, **variables: str) -> bool:
    """Whether the command calls `spark-submit`."""
    return java_command(home, properties, ENVIRONMENT | variables)[0][0] == str(home / "bin" / "spark-submit")


def test_it_is_the_command_that_spark_submit_computes():
    """With another version of Spark the options of Java may be others: take them from this test."""
    home, properties = spark_home(), driver_properties(["/jars/first.jar", "/jars/second.jar"])
    (java, *rest), environment = java_command(home, properties, ENVIRONMENT | {"SPARK_HOME": str(home)})
    arguments = [PROGRAM, *rest[rest.index(PROGRAM) + 1 :]]
    launcher = [java, "-cp", f"{home}/jars/*", "org.apache.spark.launcher.Main", *arguments]
    computed = subprocess.run(launcher, capture_output=True, text=True, check=True, env=environment).stdout
    expected = computed.lstrip("\0\n").rstrip("\0").split("\0")[1:]
    assert rest == [option for option in expected if option != "--add-modules=jdk.incubator.vector"]


def test_the_python_workers_of_spark_get_equal_hashes_of_texts(home: Path):
    assert java_command(home, PROPERTIES, ENVIRONMENT)[1]["PYTHONHASHSEED"] == "0"


def test_the_heap_the_jars_and_the_options_of_the_driver_are_those_of_java(home: Path):
    properties = PROPERTIES | {"spark.driver.extraClassPath": "a.jar", "spark.driver.extraJavaOptions": "-Da=1 -Db=2"}
    _, flag, jars, *options = java_command(home, properties, ENVIRONMENT)[0]
    assert (flag, jars) == ("-cp", f"a.jar:{home}/conf:{home}/jars/slf4j-api-2.jar:{home}/jars/*")
    assert options[:3] == ["-Xmx2g", "-Da=1", "-Db=2"]


@pytest.mark.parametrize(
    ("properties", "variables"),
    [
        pytest.param(PROPERTIES, {"SPARK_SUBMIT_OPTS": "-Dx"}, id="a variable of Spark"),
        pytest.param(PROPERTIES, {"HADOOP_CONF_DIR": "/etc/hadoop"}, id="a variable of Hadoop"),
        pytest.param({"spark.driver.extraLibraryPath": "/lib"}, {}, id="a property that the script reads"),
        pytest.param({"spark.driver.extraJavaOptions": '-Da="1 2"'}, {}, id="quotes"),
        pytest.param({"spark.driver.extraJavaOptions": "-Xmx3g"}, {}, id="a heap that the script refuses"),
        pytest.param(PROPERTIES, {"JAVA_HOME": "/elsewhere"}, id="no Java, which the script reports"),
    ],
)
def test_with_settings_of_the_user_spark_submit_is_called(home: Path, properties, variables):
    assert not is_submitted(home)
    assert is_submitted(home, properties, **variables)


def test_with_a_configuration_of_spark_it_is_called(home: Path):
    (home / "conf").mkdir()
    assert is_submitted(home)


def test_with_another_version_of_spark_it_is_called(home: Path):
    (home / "jars" / LAUNCHER).unlink()
    assert is_submitted(home)
