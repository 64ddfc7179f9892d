"""`sluice-demo play`: plays the flights into a topic of any Kafka cluster."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from sluice.kafka.kafka_errors import WriteError
from sluice.kafka.topics import reach
from sluice.processes import stop_signals
from sluice_demo.flight_player import Player
from sluice_demo.flights import load

#: played days per second
SPEED = 1.0
SECONDS = 30


def play_flights(kafka: Mapping[str, str], topic: str, partitions: int, days: int, speed: float | None) -> Player:
    """Plays `days` days, or until SIGTERM or SIGINT. Raises WriteError if the brokers refuse a record."""
    with reach(kafka) as requests:
        topic_partitions = requests.send(
            "create topic", lambda client: _topic(client, topic, partitions), seconds=SECONDS
        )
    player = Player(kafka, topic, topic_partitions, islice(load(), days), speed)
    with stop_signals() as stop_requested:
        player.start()
        player.go()
        while player.is_alive() and not stop_requested.wait(0.1):
            pass
        player.stop()
    if player.error:
        message = f"the brokers did not take a record of topic {topic}: {player.error.str()}"
        raise WriteError(message)
    return player


def _topic(client: AdminClient, name: str, partitions: int) -> int:
    """The number of topic partitions of the topic, which is created with `partitions` if it does not exist."""
    try:
        client.create_topics([NewTopic(name, partitions)], request_timeout=SECONDS)[name].result()
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return len(client.list_topics(name, SECONDS).topics[name].partitions)
        message = f"cannot create topic {name}: {error.args[0].str()}"
        raise WriteError(message) from error
    return partitions
