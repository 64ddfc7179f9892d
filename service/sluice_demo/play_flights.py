"""`sluice-demo play`: plays the flights into a topic of any Kafka cluster."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from confluent_kafka.cimpl import NewTopic

from sluice.kafka.kafka_errors import WriteError
from sluice.kafka.topics import create
from sluice.processes import stop_signals
from sluice_demo.flight_player import Player
from sluice_demo.flights import load

#: played days per second
SPEED = 1.0


def play_flights(kafka: Mapping[str, str], topic: str, partitions: int, days: int, speed: float | None) -> Player:
    """Plays `days` days, or until SIGTERM or SIGINT.

    Creates the topic with `partitions` topic partitions if it does not exist. Raises TopicError if the brokers refuse
    the topic, and WriteError if they refuse a record.
    """
    found = create(kafka, NewTopic(topic, partitions))
    player = Player(kafka, topic, len(found[topic].partitions), islice(load(), days), speed)
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
