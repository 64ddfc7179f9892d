"""`sluice-demo play`: plays the flights into a topic of any Kafka cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import islice

import click
from confluent_kafka.cimpl import NewTopic

from sluice.commands import options
from sluice.kafka.kafka_errors import PropertyError, WriteError
from sluice.kafka.topics import create
from sluice.model.secrets import MissingSecretError, substitute
from sluice.processes import stop_signals
from sluice_demo.flight_player import Player
from sluice_demo.flights import load

#: played days per second
SPEED = 1.0


@click.command()
@options.kafka
@click.option("--topic", default="flights", show_default=True, help="Topic of the flights.")
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    help="Topic partitions, if the topic is created.",
)
@click.option("--days", type=click.IntRange(1, 365), default=365, show_default=True, help="Number of days to play.")
@click.option(
    "--speed", type=click.FloatRange(min=0, min_open=True), default=SPEED, show_default=True, help="Days per second."
)
@click.option("--all", "everything", is_flag=True, help="Play as fast as possible.")
def play(kafka: dict[str, str], topic: str, partitions: int, days: int, speed: float, everything: bool) -> None:  # noqa: FBT001, PLR0917 - click passes them by name
    """Play the flights that left New York in 2013 into a topic, as examples/flights.yaml reads them.

    The option --kafka bootstrap.servers=HOST:PORT is required. Each departure is sent at its time, and a window mark
    after each day. Ends after the last day, or at SIGTERM or Ctrl-C.
    """
    player = play_flights(looked_up(kafka), topic, partitions, days, None if everything else speed)
    played = "1 day" if player.days == 1 else f"{player.days} days"
    click.echo(f"played {played}: {player.tuples:,} departures and {player.marks:,} marks into {topic}")


def play_flights(kafka: Mapping[str, str], topic: str, partitions: int, days: int, speed: float | None) -> Player:
    """Plays `days` days, or until SIGTERM or SIGINT.

    Creates the topic with `partitions` topic partitions if it does not exist. Raises TopicError if the brokers refuse
    the topic, and WriteError if they refuse a record.
    """
    topics = create(kafka, NewTopic(topic, partitions))
    player = Player(kafka, topic, len(topics[topic].partitions), islice(load(), days), speed)
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


def looked_up(kafka: dict[str, str]) -> dict[str, str]:
    """The properties with ${...} replaced by values, as in a pipeline file. Raises PropertyError if one is missing."""
    try:
        return {name: substitute(text, os.environ) for name, text in kafka.items()}
    except MissingSecretError as missing:
        expected, got = missing.args[1], missing.args[0]
        message = f"--kafka: expected {expected}, got {got}"
        raise PropertyError(message) from missing
