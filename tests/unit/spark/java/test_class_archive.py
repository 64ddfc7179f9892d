"""Java's options for an archive of classes (service/sluice/spark/java/class_archive.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.spark.java import class_archive
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
