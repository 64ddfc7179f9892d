"""The command that starts Java, kept from an earlier start. A shell stands for Java."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from sluice.spark.java.java_command import PROGRAM, VECTORS, JavaCommand, temporary_files

PROPERTIES = {"spark.driver.memory": "2g"}
#: as `spark-submit`: adds a variable and Java's options, and becomes Java
SUBMIT = f"""#!/bin/sh
export ADDED=1
exec /bin/sh -c 'echo up; read line' -Xmx2g {VECTORS} {PROGRAM} "$@"
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with `spark-submit` and the jar of its launcher."""
    for name, content in {"bin/spark-submit": SUBMIT, "jars/spark-launcher_2.13-4.2.0.jar": ""}.items():
        path = tmp_path / "spark" / name
        path.parent.mkdir(parents=True)
        path.write_text(content)
        path.chmod(0o755)
    return tmp_path / "spark"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kept").mkdir()
    return tmp_path / "kept"


def command(home: Path, folder: Path, properties: dict[str, str] = PROPERTIES, **variables: str) -> JavaCommand:
    return JavaCommand(home, properties, {"PATH": os.environ["PATH"], **variables}, folder)


def start(one: JavaCommand) -> None:
    """Starts what the command says, and keeps the command when it is up."""
    with subprocess.Popen(one.arguments, env=one.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        one.keep(process.pid)
        process.communicate()


def test_the_first_start_calls_spark_submit(home: Path, folder: Path):
    assert command(home, folder).arguments == [
        f"{home}/bin/spark-submit", "--conf", "spark.driver.memory=2g", "pyspark-shell",
    ]  # fmt: skip


def test_the_next_start_calls_what_spark_submit_became(home: Path, folder: Path):
    start(command(home, folder))
    again = command(home, folder)
    assert again.arguments == [
        "/bin/sh", "-c", "echo up; read line", "-Xmx2g", PROGRAM, "--conf", "spark.driver.memory=2g", "pyspark-shell",
    ]  # fmt: skip
    assert again.environment == {"PATH": os.environ["PATH"], "ADDED": "1"}


def test_the_next_start_may_have_another_folder_of_temporary_files(home: Path, folder: Path, monkeypatch):
    submit = home / "bin" / "spark-submit"
    submit.write_text(SUBMIT.replace("-Xmx2g", "-Xmx2g -Djava.io.tmpdir=/tmp/1"))

    def with_folder(temporary: str) -> JavaCommand:
        monkeypatch.setattr(tempfile, "tempdir", temporary)
        return command(home, folder, {"spark.driver.extraJavaOptions": f"-Xmx2g {temporary_files()}"})

    start(with_folder("/tmp/1"))  # noqa: S108 - nothing is written there
    assert with_folder("/tmp/2").arguments[3:5] == ["-Xmx2g", "-Djava.io.tmpdir=/tmp/2"]  # noqa: S108


def test_the_arguments_of_the_program_and_variables_of_the_service_are_not_kept(home: Path, folder: Path):
    start(command(home, folder, {"spark.hadoop.key": "secret-1"}, OF_SERVICE="secret-2"))
    (file,) = folder.iterdir()
    assert "secret" not in file.read_text()


@pytest.mark.parametrize(
    ("properties", "variables"),
    [
        pytest.param({"spark.driver.memory": "3g"}, {}, id="properties"),
        pytest.param(PROPERTIES, {"SPARK_SUBMIT_OPTS": "-Dx"}, id="a variable of Spark"),
        pytest.param(PROPERTIES, {"JAVA_HOME": "/elsewhere"}, id="another Java"),
    ],
)
def test_with_other_settings_spark_submit_is_called(home: Path, folder: Path, properties, variables):
    start(command(home, folder))
    assert command(home, folder, properties, **variables).arguments[0].endswith("spark-submit")


def test_with_another_spark_it_is_called(home: Path, folder: Path):
    start(command(home, folder))
    os.utime(home / "jars" / "spark-launcher_2.13-4.2.0.jar", (1, 1))
    assert command(home, folder).arguments[0].endswith("spark-submit")


@pytest.mark.parametrize("name", ["conf", "elsewhere"])
def test_with_a_configuration_of_spark_by_the_user_nothing_is_kept(home: Path, folder: Path, name: str):
    (home / name).mkdir()
    variables = {} if name == "conf" else {"SPARK_CONF_DIR": str(home / name)}
    start(command(home, folder, **variables))
    assert not [*folder.iterdir()]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"key": null, "start": ["/bin/sh"], "variables": {}}'])
def test_a_damaged_file_is_not_used(home: Path, folder: Path, content: str):
    (folder / "java-command.json").write_text(content)
    assert command(home, folder).arguments[0].endswith("spark-submit")


def test_a_java_that_was_removed_is_not_called(home: Path, folder: Path):
    start(command(home, folder))
    file = folder / "java-command.json"
    file.write_text(file.read_text().replace("/bin/sh", "/bin/removed"))
    assert command(home, folder).arguments[0].endswith("spark-submit")


def test_a_command_with_which_java_does_not_start_is_removed(home: Path, folder: Path):
    start(command(home, folder))
    command(home, folder).forget()
    assert command(home, folder).arguments[0].endswith("spark-submit")


def test_without_a_folder_to_write_to_spark_submit_is_called_each_time(home: Path, tmp_path: Path):
    start(command(home, tmp_path / "missing"))
    assert command(home, tmp_path / "missing").arguments[0].endswith("spark-submit")
