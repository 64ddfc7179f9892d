from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture.engine import ConjectureRunner

from sluice.kafka.embedded_broker import EmbeddedBroker
from sluice.model.secrets import MASKS
from sluice.processes import collect_garbage_rarely
from sluice.running import service_start
from sluice.spark.workers.fork_server_process import fork_server, named_sockets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# No Java process of a test lives long enough to profit from its second compiler, which takes most of the first minute.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")

# 10,000 tests make millions of objects and hardly any cycles.
collect_garbage_rarely()

#: the files whose tests take longest, the longest first
LONGEST = (
    "test_bucket_writers.py", "test_nulls_against_oracle.py", "test_split_and_merge.py", "test_topics_in_service.py",
    "test_spread.py", "test_state_table.py", "test_batch_writer.py", "test_direct_lane.py", "test_pipelines.py",
    "test_conformance.py", "test_transactions.py", "test_early_against_oracle.py", "test_changed_pipelines.py",
    "test_verify.py", "test_exactly_once_table.py", "test_record_timestamps.py", "test_against_oracle.py",
    "test_times_at_the_ends.py", "test_exit_codes.py", "test_spread_over_event_time.py", "test_quiet_against_oracle.py",
    "test_ledger.py", "test_carried_values.py", "test_inputs_again.py", "test_demo.py", "test_lead.py",
)  # fmt: skip

# How long an example takes says nothing about whether it is right.
settings.register_profile("no clock", deadline=None)
settings.load_profile("no clock")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where several processes share the files, those whose tests mostly wait, for Java and Kafka, take turns with those
    that compute. The longest come first, so that none of them is left over at the end.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    turns = [turn for waiting in (True, False) for turn in _turns(files, waiting=waiting)]
    items[:] = [item for _, path in sorted(turns) for item in files[path]]


def _turns(files: Mapping[Path, list[pytest.Item]], *, waiting: bool) -> Iterator[tuple[float, Path]]:
    """The files whose tests wait, or the others, each with its place between 0 and 1."""
    chosen = [path for path, tests in files.items() if any(map(_waits, tests)) == waiting]
    chosen.sort(key=lambda path: LONGEST.index(path.name) if path.name in LONGEST else len(LONGEST))
    return (((number + 0.5) / len(chosen), path) for number, path in enumerate(chosen))


def _waits(test: pytest.Item) -> bool:
    return any(test.get_closest_marker(name) for name in ("kafka", "spark"))


@pytest.fixture(scope="session", autouse=True)
def _temporary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What we start, and what that starts, leaves its temporary files where pytest removes them."""
    folder = str(tmp_path_factory.mktemp("temporary"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        yield


@pytest.fixture
def only_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call of `sluice run` in this process reads the files without starting Java, and keeps the handlers of signals,
    which the command replaces for as long as its process lives.
    """
    monkeypatch.setattr(service_start, "early_processes", lambda _, load: nullcontext((load(), None)))
    monkeypatch.setattr(service_start, "signals_end_at_once", nullcontext)


@pytest.fixture(autouse=True)
def _no_masks() -> Iterator[None]:
    """Values of ${...} are masked for as long as a process lives; each test is a process of its own in this."""
    yield
    MASKS.clear()


@pytest.fixture(scope="session", autouse=True)
def _distinct_cases() -> Iterator[None]:
    """Draws each random case anew. Else hypothesis makes up to five of six cases by repeating a part of the case before
    them, and an operator and its sizes are drawn for the sixth alone. The strategies of our tests have few values of
    everything, so things meet without repeated parts.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConjectureRunner, "generate_mutations_from", lambda *_: None)
        yield


@pytest.fixture
def states_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks every state after each batch, and all window events of aggregates."""
    from tests.spec import invariants  # noqa: PLC0415 - it imports the engine, which many tests do not need

    invariants.checked(monkeypatch)


@pytest.fixture(scope="session")
def broker() -> Iterator[str]:
    """`bootstrap.servers` of a real broker: the embedded one, or with SLUICE_TEST_BROKER=docker one in a container."""
    if os.environ.get("SLUICE_TEST_BROKER") == "docker":
        yield from _docker_broker()
    else:
        with EmbeddedBroker() as embedded:
            yield embedded.bootstrap


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The only session of this process: another start would get the same Java process, and the pool's first socket."""
    from sluice.spark.spark_session import session  # noqa: PLC0415 - most tests need no Spark

    os.environ.setdefault("SLUICE_CHECKS", "1")  # all invariants, in the state servers too
    with named_sockets() as sockets, fork_server(sockets, fork=False) as server:
        if server:
            server.begin("")
        one = session("tests", "local[2]")
        yield one
        one.stop()


def _docker_broker() -> Iterator[str]:
    from testcontainers.community.kafka import KafkaContainer  # noqa: PLC0415 - without Docker its import is for nothing

    container = KafkaContainer("confluentinc/cp-kafka:7.9.0").with_kraft()
    for name, value in {
        "KAFKA_LOG_RETENTION_MS": "-1",
        "KAFKA_LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS": str(2**63 - 1),
        "KAFKA_LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS": str(2**63 - 1),
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    }.items():
        container.with_env(name, value)
    with container:
        yield container.get_bootstrap_server()
