from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from sluice.kafka import consumer_groups, ledger, requests
from sluice.kafka.embedded_broker import EmbeddedBroker
from sluice.kafka.kafka_errors import TopicError, UnavailableError
from sluice.kafka.requests import REQUEST
from sluice.kafka.topics import FIRST_ATTEMPT_S, Topic, check, create, reach, unreachable
from sluice.model.expressions import Attribute
from sluice.model.spec import Map, Output, Pipeline, Settings, Stream
from sluice.model.types import INT64

SCHEMA = (("a", INT64),)


def pipeline(kafka, read, written, partitions=1, dead=None):
    streams = {
        "in": Stream("in", SCHEMA, read),
        "out": Stream("out", SCHEMA, written, partitions=partitions),
        "dead": Stream("dead", (), dead),
    }
    operator = Map("copy", "in", (Output("out", (("a", Attribute("a", INT64)),)),))
    return Pipeline("test", streams, (operator,), Settings(kafka), "dead" if dead else None)


@pytest.mark.kafka
def test_missing_outputs_and_the_ledger_are_created(kafka, create_topic, name):
    create_topic(f"{name}-in", 3, **{"max.message.bytes": "5000"})
    found = check(pipeline(kafka, f"{name}-in", f"{name}-out", partitions=4, dead=f"{name}-dead"))
    assert found == {
        f"{name}-in": Topic(f"{name}-in", 3, 5000),
        f"{name}-out": Topic(f"{name}-out", 4, 1_048_588),
        f"{name}-dead": Topic(f"{name}-dead", 1, 1_048_588),
        ledger.TOPIC: Topic(ledger.TOPIC, 1, 1_048_588, compacted=True),
    }
    assert check(pipeline(kafka, f"{name}-in", f"{name}-out", partitions=9, dead=f"{name}-dead")) == found


@pytest.mark.kafka
def test_a_ledger_whose_entries_kafka_deletes_is_warned_about(kafka, create_topic, name, caplog):
    """Somebody has created the topic in advance, or the broker has, with its default."""
    create_topic(f"{name}-in")

    def warnings(policy):
        value = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, ledger.TOPIC, incremental_configs=[value])
        admin = AdminClient(kafka)
        (changed,) = admin.incremental_alter_configs([resource]).values()
        changed.result()
        caplog.clear()
        check(pipeline(kafka, f"{name}-in", f"{name}-out"))
        return [record.message for record in caplog.records if record.levelno == logging.WARNING]

    check(pipeline(kafka, f"{name}-in", f"{name}-out"))
    (warning,) = warnings("delete")
    assert f"topic {ledger.TOPIC} has cleanup.policy=delete: Kafka deletes old entries" in warning
    assert warnings("compact") == []


@pytest.mark.kafka
def test_a_missing_input_is_an_error_and_nothing_is_created(kafka, name):
    with pytest.raises(TopicError, match=f"no such topic: {name}-in; inputs are not created"):
        check(pipeline(kafka, f"{name}-in", f"{name}-out"))
    assert f"{name}-out" not in AdminClient(kafka).list_topics(timeout=10).topics


@pytest.mark.kafka
def test_a_missing_output_that_may_not_be_created_is_an_error(kafka, create_topic, name):
    create_topic(f"{name}-in")
    with pytest.raises(TopicError, match=f"no such topic: {name}-out; it may be created if stream 'out' gives"):
        check(pipeline(kafka, f"{name}-in", f"{name}-out", partitions=None))


@pytest.mark.kafka
def test_a_topic_with_an_illegal_name_is_an_error(kafka, create_topic, name):
    create_topic(f"{name}-in")
    with pytest.raises(TopicError, match="topic a b"):
        check(pipeline(kafka, f"{name}-in", "a b"))


@pytest.mark.kafka
def test_a_created_topic_is_described_as_it_is_and_not_as_it_was_asked_for(kafka, name):
    for partitions in (3, 5):
        found = create(kafka, NewTopic(f"{name}-one", partitions), NewTopic(f"{name}-{partitions}", partitions))
        assert {topic: len(described.partitions) for topic, described in found.items()} == {
            f"{name}-one": 3,
            f"{name}-{partitions}": partitions,
        }


@pytest.mark.kafka
def test_a_topic_is_waited_for_while_too_few_brokers_are_there_for_its_replicas(kafka, name):
    with pytest.raises(UnavailableError, match=r"cannot create topics: .*replication factor"):
        create(kafka, NewTopic(name, 1, replication_factor=2), retry_s=0.5)


@pytest.mark.parametrize("servers", ["bootstrap.servers", "metadata.broker.list"])
def test_no_broker_is_said_in_bounded_time(caplog, servers):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        start = time.monotonic()
        with (
            caplog.at_level(logging.CRITICAL),
            pytest.raises(UnavailableError, match=f"cannot connect to Kafka at {address}: the connection is refused"),
        ):
            check(pipeline({servers: address}, "in", "out"), retry_s=2)
    assert time.monotonic() - start < 5


@pytest.mark.kafka
def test_input_offsets_show_in_a_consumer_group(kafka, topic):
    with consumer_groups.InputOffsets(kafka, topic) as offsets:
        offsets.commit({(topic, 0): 5, (topic, 1): 7})
    client = AdminClient(kafka)
    wanted = ConsumerGroupTopicPartitions(consumer_groups.lag_group_of(topic))
    (future,) = client.list_consumer_group_offsets([wanted]).values()
    assert {(place.partition, place.offset) for place in future.result().topic_partitions} == {(0, 5), (1, 7)}


@pytest.fixture(scope="module")
def guarded() -> Iterator[dict[str, str]]:
    """A broker that heeds access rules, of which there are none yet."""
    rules = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with EmbeddedBroker(rules) as broker:
        yield {"bootstrap.servers": broker.bootstrap}


def deny(kafka, topic, operation):
    """Allows everything but this operation on a topic."""
    client = AdminClient(kafka)
    rules = [
        AclBinding(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", *what)
        for what in ((AclOperation.ALL, AclPermissionType.ALLOW), (operation, AclPermissionType.DENY))
    ]
    for future in client.create_acls(rules).values():
        future.result()


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("denied", "message"),
    [
        (("in", AclOperation.READ), r"may not read topic \S+-in: it lacks the permission READ"),
        (("out", AclOperation.WRITE), r"may not write topic \S+-out: it lacks the permission WRITE"),
        (("in", AclOperation.DESCRIBE), r"cannot describe topic \S+-in: .*[Aa]uthorization failed"),
    ],
)
def test_a_missing_permission_is_an_error_that_names_it(guarded, create_topic, name, denied, message):
    for one in ("in", "out"):
        create_topic(f"{name}-{one}", at=guarded)
    side, operation = denied
    deny(guarded, f"{name}-{side}", operation)
    with pytest.raises(TopicError, match=message):
        check(pipeline(guarded, f"{name}-in", f"{name}-out"))


@pytest.mark.kafka
def test_a_configuration_that_may_not_be_seen_has_kafkas_limit_and_may_be_compacted(guarded, create_topic, name):
    for one in ("in", "out"):
        create_topic(f"{name}-{one}", at=guarded, **{"max.message.bytes": "5000"})
    deny(guarded, f"{name}-out", AclOperation.DESCRIBE_CONFIGS)
    found = check(pipeline(guarded, f"{name}-in", f"{name}-out"))
    assert found[f"{name}-in"] == Topic(f"{name}-in", 1, 5000)
    assert found[f"{name}-out"] == Topic(f"{name}-out", 1, 1_048_588, compacted=True)


REASONS = {
    "a:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused (after 0ms)": "the connection is refused",
    "a:1/bootstrap: Failed to resolve 'a:1': Name or service not known": "the name of the host is unknown",
    "a:1/bootstrap: SASL authentication error: Authentication failed": "the login is refused",
    "a:1/bootstrap: SSL handshake failed: certificate verify failed": "the TLS handshake failed",
    "Local: Timed out": "none answers",
}


@pytest.mark.parametrize(("reason", "cause"), REASONS.items())
def test_the_cause_is_named(reason, cause):
    message = unreachable("a:1", reason)
    assert message.startswith(f"cannot connect to Kafka at a:1: {cause}")
    assert message.endswith(f"({reason})")


def test_a_refused_connection_is_called_that():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{unused.getsockname()[1]}"
    with pytest.raises(UnavailableError, match="the connection is refused, so nothing listens at this address"):
        reach({"bootstrap.servers": place}, 1.0)


def test_a_wrong_address_is_named_after_a_short_attempt_while_further_ones_follow(monkeypatch, caplog):
    """A client of the library itself would try for as long as it may."""
    asked = []

    class Client:
        def __init__(self, properties):
            pass

        def poll(self, seconds):
            pass

        def list_topics(self, timeout):
            asked.append(timeout)
            if len(asked) == 1:
                raise KafkaException(KafkaError(KafkaError.NETWORK_EXCEPTION, "Connection refused"))

    monkeypatch.setattr(requests, "AdminClient", Client)
    reach({"bootstrap.servers": "a:1"})
    assert asked == [FIRST_ATTEMPT_S, REQUEST]
    assert "repeated for 60 s: cannot connect to Kafka at a:1: the connection is refused" in caplog.text
