"""Each exit code of docs/exit-codes.md, of a service in a process of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sluice.kafka.embedded_broker import EmbeddedBroker, free_ports
from tests.recovery.harness.process_table import by_role
from tests.recovery.harness.service import Service

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

#: one operator without state
FILE = """
streams:
  in: {schema: {k: string, number: int64}}
  out: {}
operators:
  - {name: one, map: in, output: {out: {k: k, x: EXPRESSION}}}
"""
ARGUMENTS = ("--master", "local[1]")


@pytest.fixture
def make(services) -> Callable[..., Service]:
    """Makes a service; `expression` is that of its operator."""
    return lambda expression="number", **settings: services(
        FILE.replace("EXPRESSION", expression), arguments=ARGUMENTS, **settings
    )


@pytest.fixture
def service(make) -> Iterator[Service]:
    one = make()
    yield one
    one.clean_up()


def with_input(service: Service) -> Service:
    """Its input topic exists, and has a record."""
    service.create("in", partitions=1)
    service.send("in", [{"k": "key", "number": 1}])
    return service


def run_some(service: Service) -> Service:
    """Starts it with a record to read, and returns when its first batch is done."""
    with_input(service).start()
    service.wait_until((service.checkpoint / "commits" / "0").exists, "the first batch is done")
    return service


# ---- before Spark starts ---------------------------------------------------------------------------------------------


def test_1_the_pipeline_file_is_wrong(make):
    service = make(expression="numbr")
    service.start()
    assert service.await_end() == 1
    assert "did you mean number?" in service.log()


def test_2_the_call_is_wrong(service):
    service.start("--buckets", "0")
    assert service.await_end() == 2


def test_2_a_client_property_is_wrong(service):
    service.start("--kafka", "retries")
    assert service.await_end() == 2


@pytest.fixture(scope="module")
def broker_that_goes(services) -> Iterator[Service]:
    """A service whose broker was killed after the first batch. It asks for some time, as the two of `unanswered` do."""
    with EmbeddedBroker() as broker:
        service = services(
            FILE.replace("EXPRESSION", "number"), kafka={"bootstrap.servers": broker.bootstrap}, arguments=ARGUMENTS
        )
        run_some(service)
        broker.kill()
        yield service
        service.clean_up()


@pytest.fixture(scope="module")
def unanswered(services, broker_that_goes) -> Iterator[tuple[Service, Service, int]]:  # noqa: ARG001 - it waits too
    """Two services whose broker is not there. Both ask for a minute, at the same time."""
    (port,) = free_ports(1)
    text, address = FILE.replace("EXPRESSION", "number"), f"127.0.0.1:{port}"
    open_, hidden = (
        services(text, through={"bootstrap.servers": servers}, arguments=ARGUMENTS)
        for servers in (address, "${BROKERS}")
    )
    open_.start()
    hidden.start(BROKERS=address)
    yield open_, hidden, port
    open_.clean_up()
    hidden.clean_up()


@pytest.mark.slow
def test_3_no_broker_answers(unanswered):
    service, _, port = unanswered
    assert service.await_end() == 3
    assert f"cannot connect to Kafka at 127.0.0.1:{port}: the connection is refused" in service.sentence


@pytest.mark.slow
def test_3_the_address_of_the_broker_stays_hidden(unanswered):
    _, service, port = unanswered
    assert service.await_end() == 3
    assert "cannot connect to Kafka at ${BROKERS}: the connection is refused" in service.sentence
    assert str(port) not in service.log()


@pytest.mark.slow
def test_3_the_broker_goes(broker_that_goes):
    assert broker_that_goes.await_end() == 3
    assert "do not answer" in broker_that_goes.sentence


def test_3_an_input_topic_is_missing(service):
    service.start()
    assert service.await_end() == 3
    assert f"no such topic: {service.name}.in" in service.sentence


def test_3_there_is_no_java(service):
    with_input(service).start(JAVA_HOME="/nowhere")
    assert service.await_end() == 3
    assert "JAVA_HOME is /nowhere, which has no bin/java" in service.sentence


def test_4_the_checkpoint_is_another_pipelines(service):
    with_input(service)
    service.checkpoint.mkdir()
    (service.checkpoint / "notes.txt").touch()
    service.start()
    assert service.await_end() == 4
    assert "it is not a checkpoint of Sluice" in service.sentence


# ---- while it runs -----------------------------------------------------------------------------------------------


def test_0_it_is_told_to_end(service):
    run_some(service).end()


def test_0_it_is_told_to_end_while_java_starts(service):
    with_input(service).start()
    service.wait_until(lambda: by_role(service.pid)["jvm"], "Java starts")
    service.end()


@pytest.mark.slow
def test_3_java_is_killed(service):
    run_some(service).signal("jvm")
    assert service.await_end() == 3
    assert "the Java process of Spark has ended unexpectedly, by the signal SIGKILL" in service.sentence


@pytest.mark.slow
def test_5_another_instance_has_the_checkpoint(service, make):
    run_some(service)
    other = make(name=service.name, checkpoint=service.checkpoint)
    other.start()
    assert other.await_end() == 5
    assert "another instance" in other.sentence
    service.end()


@pytest.mark.slow
def test_5_another_instance_takes_over_with_a_copy_of_the_checkpoint(service, make, tmp_path):
    run_some(service)
    other = make(name=service.name, checkpoint=Path(shutil.copytree(service.checkpoint, tmp_path / "other")))
    other.adopt(service)
    other.start()
    other.wait_until(lambda: "message=running" in other.log(), "the other instance runs")

    def one_more_record() -> bool:
        service.send("in", [{"k": "key", "number": 1}])
        return not service.running

    other.wait_until(one_more_record, "the first instance writes a batch after the other one's first batch")
    assert service.await_end() == 5
    assert "another instance" in service.sentence
    other.end()


@pytest.mark.slow
def test_6_a_batch_fails(service):
    with_input(service)
    service.at("committing", "fail")
    service.start()
    assert service.await_end() == 6
    assert "a batch failed: RuntimeError: a test asked for a failure at the moment 'committing'" in service.sentence
    assert service.position().next_batch == 0


@pytest.mark.slow
def test_70_there_is_a_defect(service):
    with_input(service)
    service.at("preparing", "fail")
    service.start()
    assert service.await_end() == 70
    assert "an unexpected error (RuntimeError: a test asked for a failure" in service.sentence


# ---- and no exit -----------------------------------------------------------------------------------------------------


def test_a_kill_while_spark_writes_the_first_plan(service):
    """It leaves a temporary file beside no plan, with which Spark alone would refuse the folder at each start."""
    service.create("in", partitions=1)
    service.start()
    service.await_log("message=running")
    service.kill()
    assert not list((service.checkpoint / "offsets").glob("[0-9]*")), "no batch is planned"
    for folder in ("offsets", "commits"):
        (service.checkpoint / folder).mkdir(exist_ok=True)
        for name in (".0.4711.tmp", "..0.4711.tmp.crc"):
            (service.checkpoint / folder / name).write_bytes(b"v1")
    service.send("in", [{"k": "key", "number": 1}])
    service.start()
    service.await_outputs()
