from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pyspark
import pytest

from sluice.files import project_file
from sluice.jvm import jars as module
from sluice.jvm.jars import JarsError, folder_of_jars, jars


def modules(files: Iterable[Path]) -> set[str]:
    """`kafka_2.13` of `kafka_2.13-4.1.0.jar`."""
    return {file.name.rsplit("-", 1)[0] for file in files}


def test_both_sets_are_there() -> None:
    assert {"spark-sql-kafka-0-10_2.13", "hadoop-bare-naked-local-fs"} <= modules(jars("spark"))
    assert "kafka_2.13" in modules(jars("broker"))


def test_no_jar_of_the_spark_set_is_in_the_wheel_too() -> None:
    wheel = Path(pyspark.__file__).parent / "jars"
    assert not modules(jars("spark")) & modules(wheel.glob("*.jar"))


@pytest.fixture
def fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The configurations that were fetched, each with one jar; nothing is downloaded."""
    calls: list[str] = []

    def fetch(_: str, __: Path, work: Path, configurations: str) -> None:
        calls.append(configurations)
        (work / "jars" / configurations).mkdir(parents=True)
        (work / "jars" / configurations / "one.jar").touch()

    monkeypatch.setenv("SLUICE_JARS", str(tmp_path / "jars"))
    monkeypatch.setattr(module, "_run_ivy", fetch)
    return calls


def test_only_the_configuration_that_is_used_is_fetched(tmp_path: Path, fetched: list[str]) -> None:
    assert jars("spark") == jars("spark") == [tmp_path / "jars" / "spark" / "one.jar"]
    assert fetched == ["spark"]
    assert not (tmp_path / "jars" / "broker").exists()
    assert jars("broker") == [tmp_path / "jars" / "broker" / "one.jar"]
    assert fetched == ["spark", "broker"]
    assert [path.name for path in tmp_path.iterdir()] == ["jars"]


def test_a_folder_without_todays_ivy_file_is_filled_anew(tmp_path: Path, fetched: list[str]) -> None:
    jars("spark")
    jars("broker")
    (tmp_path / "jars" / "ivy.xml").write_text("of another version")
    assert jars("broker")
    assert fetched == ["spark", "broker", "broker"]
    assert sorted(path.name for path in (tmp_path / "jars").iterdir()) == ["broker", "ivy.xml"]


def test_without_pyspark_which_brings_ivy_the_message_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_JARS", str(tmp_path / "jars"))
    monkeypatch.setattr(module, "find_java", lambda: "java")
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    with pytest.raises(JarsError, match=re.escape("pip install 'sluice-kafka[run]'")):
        jars("broker")


def test_what_ivy_says_is_shown_when_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = subprocess.CompletedProcess([], 1, "UNRESOLVED DEPENDENCIES", "")
    monkeypatch.setenv("SLUICE_JARS", str(tmp_path / "jars"))
    monkeypatch.setattr(module, "find_java", lambda: "java")
    monkeypatch.setattr(module.subprocess, "run", lambda *_, **__: said)
    with pytest.raises(JarsError, match="UNRESOLVED DEPENDENCIES"):
        jars("spark")
    assert not folder_of_jars().exists()


def test_the_ivy_file_is_found() -> None:
    assert project_file("deploy/ivy.xml").is_file()
