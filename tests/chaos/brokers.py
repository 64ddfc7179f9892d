"""Three brokers in KRaft, each behind a proxy that knows Kafka's frames. The service reaches them through the proxies
alone; the load and the checker reach them directly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from confluent_kafka.admin import AdminClient

from sluice.kafka.embedded_broker import EmbeddedBroker, Member, Running, free_ports, new_cluster
from tests.chaos.kafka_frames import FrameFaults
from tests.recovery.harness.proxy import LISTENER, Proxy

COUNT = 3
PROPERTIES = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "replica.lag.time.max.ms": "5000",
    "auto.create.topics.enable": "false",
}


class Node(NamedTuple):
    """A broker, the way to it, and the faults of single requests on this way."""

    number: int
    broker: EmbeddedBroker
    proxy: Proxy
    frames: FrameFaults


class Brokers(Running):
    def __init__(self, properties: Mapping[str, str] | None = None) -> None:
        self._properties = PROPERTIES | dict(properties or {})
        self.nodes: list[Node] = []

    @property
    def direct(self) -> dict[str, str]:
        return {"bootstrap.servers": ",".join(node.broker.bootstrap for node in self.nodes)}

    @property
    def through(self) -> dict[str, str]:
        return {"bootstrap.servers": ",".join(node.proxy.address for node in self.nodes)}

    def controller(self) -> Node:
        """The leader of the cluster's metadata, as Kafka's clients are told it."""
        admin = AdminClient(self.direct)  # its futures end with it
        return self.node(admin.describe_cluster().result(30).controller.id)

    def leader(self, topic: str, partition: int = 0) -> Node:
        topics = AdminClient(self.direct).list_topics(topic, timeout=30).topics
        return self.node(topics[topic].partitions[partition].leader)

    def transaction_coordinator(self) -> Node:
        """All transactions have one coordinator: their topic has one topic partition."""
        return self.leader("__transaction_state")

    def node(self, number: int) -> Node:
        """The broker with this number; the first one if no broker has it, as while a leader is elected."""
        return next((node for node in self.nodes if node.number == number), self.nodes[0])

    def _start(self) -> None:
        numbers = range(1, COUNT + 1)
        controllers = dict(zip(numbers, free_ports(COUNT), strict=True))
        cluster = new_cluster()
        for number in numbers:
            frames = FrameFaults()
            proxy = Proxy(through=frames)
            broker = EmbeddedBroker(
                self._properties, "320m", {LISTENER: "PLAINTEXT"}, {LISTENER: proxy.address},
                Member(number, controllers, cluster),
            )  # fmt: skip
            self.nodes.append(Node(number, broker, proxy, frames))
            broker.launch()
            proxy.forward_to(broker.bootstrap_of(LISTENER))
        for node in self.nodes:
            node.broker.await_answer()

    def stop(self) -> None:
        for node in self.nodes:
            node.proxy.stop()
            node.broker.stop()
