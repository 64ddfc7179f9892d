"""Some of these tests need Spark: they share the fixtures of tests/service. Others start a script in place of Java."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.service.conftest import service

__all__ = ["service"]


@pytest.fixture
def spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Writes a shell script that pyspark starts as spark-submit, in place of Java. The environment is restored."""
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setenv("PYSPARK_PYTHON", "")  # which a start sets

    def write(script: str) -> None:
        submit = tmp_path / "bin" / "spark-submit"
        submit.parent.mkdir()
        submit.write_text(f"#!/bin/sh\n{script}\n")
        submit.chmod(0o755)

    return write
