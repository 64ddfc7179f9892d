"""The start of Spark's Java process. A script in place of spark-submit stands for Java."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from sluice.spark.java import java_process
from sluice.spark.java.java_process import JavaProcess

#: writes the port 4711 and the secret "open", as Spark's gateway does, and ends when its standard input is closed
TAKES_CALLS = r"""
printf '\000\000\022\147\000\000\000\004open' > "$_PYSPARK_DRIVER_CONN_INFO_PATH.part"
mv "$_PYSPARK_DRIVER_CONN_INFO_PATH.part" "$_PYSPARK_DRIVER_CONN_INFO_PATH"
read line
"""
#: is on its way, and takes no calls yet
STARTS = "sleep 600"


@pytest.fixture
def java(spark_submit: Callable[[str], None]):
    """Starts a Java process whose program is a shell script."""

    def start(script: str, **properties: str) -> JavaProcess:
        spark_submit(script)
        return JavaProcess(properties)

    return start


def test_pyspark_finds_a_process_that_takes_calls_in_the_environment(java):
    with java(TAKES_CALLS) as one, one.named() as running:
        assert running
        assert os.environ["PYSPARK_GATEWAY_PORT"] == "4711"
        assert os.environ["PYSPARK_GATEWAY_SECRET"] == "open"  # noqa: S105 - of the script
    assert "PYSPARK_GATEWAY_SECRET" not in os.environ
    assert one.process.wait(60) == 1, "the end of its standard input ended it"


def test_a_process_that_ends_before_it_takes_calls_is_reported(java):
    with java("exit 3") as one, one.named() as running:
        assert not running
        assert one.process.wait() == 3


def test_a_process_that_nothing_connected_to_ends_with_the_context(java):
    with java(STARTS) as one:
        process = one.process
    assert process.poll() is not None


def test_it_gets_the_properties_that_java_needs(java, tmp_path):
    with java(f'printf "%s\\n" "$@" > {tmp_path}/arguments', **{"spark.driver.memory": "3g"}) as one:
        one.process.wait(60)
    assert (tmp_path / "arguments").read_text().splitlines() == ["--conf", "spark.driver.memory=3g", "pyspark-shell"]


def test_ctrl_c_and_sigterm_to_the_process_group_do_not_end_it(java, tmp_path):
    with java(f"kill -INT $$; kill -TERM $$; echo lives > {tmp_path}/lives") as one:
        assert one.process.wait(60) == 0
    assert (tmp_path / "lives").read_text() == "lives\n"


def test_a_java_that_takes_no_calls_is_ended(java, monkeypatch):
    monkeypatch.setattr(java_process, "MAX_START_S", 0.0)
    with java(STARTS) as one, one.named() as running:
        assert not running


def test_what_starts_it_loads_neither_pyspark_nor_the_engine():
    loaded = "import sys, sluice.spark.pipeline.early_processes as _; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pyspark", "numpy", "pyarrow", "numba", "pandas", "polars"} & set(modules)
