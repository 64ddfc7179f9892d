from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from sluice.kafka.embedded_broker import EmbeddedBroker
from sluice.model.secrets import MASKS
from sluice.running import service_start
from sluice.spark.workers.fork_server_process import fork_server, named_sockets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# No Java process of a test lives long enough to profit from its second compiler, which takes most of the first minute.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")

# How long an example takes says nothing about whether it is right.
settings.register_profile("no clock", deadline=None)
settings.load_profile("no clock")


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
    from sluice.spark.session import session  # noqa: PLC0415 - most tests need no Spark

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
