from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from sluice.kafka.embedded_broker import BrokerError, EmbeddedBroker
from sluice.kafka.topics import create
from tests.recovery.harness.embedded_cluster import EmbeddedCluster

pytestmark = pytest.mark.kafka

YEAR_2013, YEAR_2100 = 1_357_000_000_000, 4_102_444_800_000


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where all temporary files of this test go."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def produce(bootstrap: str, topic: str, values: dict[bytes, int]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value, timestamp in values.items():
        producer.produce(topic, value, timestamp=timestamp)
    assert producer.flush(30) == 0


def consume(bootstrap: str, topic: str, count: int) -> dict[bytes, int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return {message.value(): message.timestamp()[1] for message in consumer.consume(count, 30)}
    finally:
        consumer.close()


def test_records_of_any_time_come_back(broker: str) -> None:
    sent = {b"old": YEAR_2013, b"future": YEAR_2100}
    create({"bootstrap.servers": broker}, NewTopic("any-time", 1))
    produce(broker, "any-time", sent)
    assert consume(broker, "any-time", 2) == sent


def test_a_start_that_fails_leaves_nothing_and_shows_the_log(temporary: Path) -> None:
    with pytest.raises(BrokerError, match=r"log\.segment\.bytes"), EmbeddedBroker({"log.segment.bytes": "nonsense"}):
        pass
    assert [*temporary.iterdir()] == []


def test_it_does_not_outlive_a_killed_owner(temporary: Path) -> None:
    program = (
        "import time; from sluice.kafka.embedded_broker import EmbeddedBroker\n"
        "with EmbeddedBroker() as broker: print(broker.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout
        pid = int(owner.stdout.readline())
        owner.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30
    while (running(pid) or [*temporary.iterdir()]) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not running(pid)
    assert [*temporary.iterdir()] == []


def running(pid: int) -> bool:
    """Nor is it a zombie, even if no process collects orphans."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_cluster_answers_while_one_of_its_brokers_restarts() -> None:
    with EmbeddedCluster(3) as cluster:
        create({"bootstrap.servers": cluster.bootstrap}, NewTopic("replicated", 1))
        produce(cluster.bootstrap, "replicated", {b"one": YEAR_2013})
        topics = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=10).topics
        (partition,) = topics["replicated"].partitions.values()
        assert sorted(partition.replicas) == [1, 2, 3]
        leader = cluster.brokers[partition.leader - 1]
        leader.terminate()
        produce(cluster.bootstrap, "replicated", {b"two": YEAR_2013})
        leader.restart()
        assert consume(cluster.bootstrap, "replicated", 2) == {b"one": YEAR_2013, b"two": YEAR_2013}
