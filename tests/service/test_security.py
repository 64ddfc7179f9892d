"""Each way to be let in by the brokers: the same block serves our own clients and Spark's source."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sluice.kafka.kafka_errors import UnavailableError
from sluice.kafka.topics import reach
from sluice.model.spec import Properties
from sluice.spark.query import prepare, start
from tests.service.conftest import Service
from tests.unit.kafka.secured import Secured, secured

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

KINDS = [
    "PLAINTEXT", "SASL/PLAIN", "SASL/SCRAM-SHA-256", "SASL/SCRAM-SHA-512 over TLS", "TLS", "mutual TLS by files",
    "mutual TLS, the key encrypted",
]  # fmt: skip

PIPELINE = """
streams:
  in: {schema: {number: int64}}
  out: {}
  dead: {}
operators:
  - {name: sum, aggregate: in, window: "tumbling, count(2)", output: {out: {sum: Sum(number)}}}
dead_letters: dead
"""


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured(tmp_path_factory.mktemp("certificates")) as them:
        yield them


@pytest.fixture
def service(spark, brokers, tmp_path, request) -> Service:
    """The test itself sends and reads without any security."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    return Service(spark, brokers.plain, tmp_path, f"security-{name}")


@pytest.mark.parametrize("kind", KINDS)
def test_a_pipeline_reads_writes_and_keeps_its_ledger(service, brokers, kind):
    """The admin client makes the topics, Spark's source reads, the producer writes in a transaction with the ledger."""
    service.create("in")
    service.send("in", [{"value": b'{"number": 1}'}, {"value": b"no"}, {"value": b'{"number": 2}'}])
    pipeline = service.pipeline(PIPELINE, brokers.kinds[kind])
    service.run(pipeline)
    assert service.outputs("out") == [{"tuple": {"sum": 3}}, {"punct": "window"}]
    assert len(service.read("dead")) == 1
    service.send("in", [{"value": b'{"number": 3}'}, {"value": b'{"number": 4}'}])
    service.run(pipeline)  # after a look into the ledger
    assert service.outputs("out")[2:] == [{"tuple": {"sum": 7}}, {"punct": "window"}]


def test_all_kinds_are_tried(brokers):
    assert list(brokers.kinds) == KINDS


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("SASL/PLAIN", {"sasl.password": "geheim"}),
        ("SASL/SCRAM-SHA-256", {"sasl.password": "geheim"}),
        ("mutual TLS by files", {"ssl.certificate.location": None, "ssl.key.location": None}),
        ("TLS", {"ssl.ca.pem": None}),
        ("TLS", {"security.protocol": None, "ssl.ca.pem": None}),
    ],
)
def test_who_may_not_come_in_is_told_so_without_any_secret(brokers, kind, wrong):
    changed = brokers.kinds[kind] | wrong
    with pytest.raises(UnavailableError, match=r"cannot connect to Kafka at 127.0.0.1:") as raised:
        reach(Properties({name: value for name, value in changed.items() if value is not None}), retry_s=3)
    assert not any(secret in str(raised.value) for secret in (*brokers.secrets, "geheim"))


@pytest.mark.parametrize("kind", ["SASL/PLAIN", "mutual TLS, the key encrypted"])
def test_nothing_that_is_shown_has_a_secret(service, brokers, spark, kind):
    """The pipeline and the plan, Spark's plan of a batch, its properties and its progress."""
    service.create("in")
    service.send("in", [{"value": b'{"number": 1}'}])
    pipeline = service.pipeline(PIPELINE, brokers.kinds[kind])
    plan = prepare(pipeline)
    query = start(spark, plan)
    try:
        query.processAllAvailable()
        explained = query._jsq.explainInternal(True)  # noqa: FBT003, SLF001 - what `explain` prints
        progress = query.lastProgress.json
    finally:
        query.stop()
    shown = [repr(pipeline), repr(plan), explained, progress, str(spark.sparkContext.getConf().getAll())]
    key = brokers.kinds[kind].get("ssl.key.pem", "no key").splitlines()
    hidden = [*brokers.secrets, *(line for line in key if len(line) > 30 and "KEY" not in line)]
    assert not [secret for secret in hidden for text in shown if secret in text]
