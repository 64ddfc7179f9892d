"""What a service starts before it reads its files. A script in place of spark-submit stands for Java."""

from __future__ import annotations

import pytest

from sluice.model.errors import SluiceError
from sluice.spark.java.java_process import JavaProcess
from sluice.spark.pipeline import early_processes as module
from sluice.spark.pipeline.early_processes import early_processes


def test_an_error_of_the_files_ends_java(spark_submit, monkeypatch):
    spark_submit("exec sleep 600")
    started: list[JavaProcess] = []

    def java(properties: dict[str, str]) -> JavaProcess:
        started.append(JavaProcess(properties))
        return started[0]

    def load() -> None:
        assert started[0].process.poll() is None, "the files are read beside the start of Java"
        message = "the file is wrong"
        raise SluiceError(message)

    monkeypatch.setattr(module, "JavaProcess", java)
    with pytest.raises(SluiceError, match="the file is wrong"), early_processes("local[*]", load):
        pass
    assert started[0].process.poll() is not None


def test_on_a_cluster_nothing_starts_before_the_session():
    with early_processes("spark://there:7077", lambda: "files") as started:
        assert started == ("files", None)
