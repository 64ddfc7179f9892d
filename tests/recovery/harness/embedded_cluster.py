"""A Kafka cluster of several real brokers on this machine."""

from __future__ import annotations

from collections.abc import Mapping

from sluice.kafka.embedded_broker import EmbeddedBroker, Member, Running, free_ports, new_cluster


class EmbeddedCluster(Running):
    """A cluster of `count` brokers, each of which is also a controller.

    A topic has a replica on every broker. A write needs two replicas in sync (`min.insync.replicas`).
    """

    def __init__(self, count: int = 3, properties: Mapping[str, str] | None = None, heap: str = "320m") -> None:
        self._count = count
        self._heap = heap
        replicas, needed = str(count), str(min(count, 2))
        self._properties = {
            "default.replication.factor": replicas,
            "min.insync.replicas": needed,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": needed,
            # A replica that does not fetch delays writes for at most this time; then it leaves the in-sync replicas.
            "replica.lag.time.max.ms": "5000",
            **(properties or {}),
        }
        self.brokers: list[EmbeddedBroker] = []

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers)

    def restart(self, broker: EmbeddedBroker) -> None:
        """Ends a broker with SIGTERM, so that it hands its leaderships to other brokers, and starts it again."""
        broker.terminate()
        broker.restart()

    def stop(self) -> None:
        for broker in self.brokers:
            broker.stop()

    def _start(self) -> None:
        numbers, cluster = range(1, self._count + 1), new_cluster()
        controllers = dict(zip(numbers, free_ports(self._count), strict=True))
        self.brokers = [
            EmbeddedBroker(self._properties, self._heap, member=Member(number, controllers, cluster))
            for number in numbers
        ]
        for broker in self.brokers:
            broker.launch()
        for broker in self.brokers:
            broker.await_answer()
