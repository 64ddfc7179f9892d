"""Java's options for an archive of classes (service/sluice/spark/java/class_archive.py)."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import MagicMock

import pytest

from sluice.spark.java import class_archive, write_class_archive
from sluice.spark.java.class_archive import options


@pytest.mark.parametrize(
    ("name", "used"),
    [
        pytest.param("classes-4.jsa", True, id="complete"),
        pytest.param("classes-5.jsa", False, id="too short"),
        pytest.param("classes-.jsa", False, id="without its size"),
        pytest.param("part", False, id="being written"),
    ],
)
def test_java_uses_a_complete_archive(tmp_path: Path, name: str, *, used: bool):
    (tmp_path / name).write_bytes(b"jsa\0")
    wanted = f"-XX:SharedArchiveFile={tmp_path / name} {class_archive.AT_ITS_ADDRESS} {class_archive.QUIET}"
    assert options(tmp_path) == (wanted if used else "")


def test_without_an_archive_java_has_no_option(tmp_path: Path):
    assert options(tmp_path) == ""


def test_the_archive_of_a_run_of_spark_takes_the_place_of_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    spark, java = MagicMock(), MagicMock()
    (tmp_path / "classes-4.jsa").write_bytes(b"old\0")

    def started(_name: str, _master: str, properties: dict[str, str]) -> MagicMock:
        part = properties["spark.driver.extraJavaOptions"].partition("-XX:ArchiveClassesAtExit=")[2].split()[0]
        java.proc.wait.side_effect = lambda _: Path(part).write_bytes(b"new archive")
        return spark

    monkeypatch.setattr(write_class_archive, "session", started)
    monkeypatch.setattr(write_class_archive, "gateway", lambda: java)
    write_class_archive.make(tmp_path)
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("classes-11.jsa", b"new archive")]
