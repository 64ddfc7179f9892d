"""The command line of `sluice-demo play`."""

from __future__ import annotations

import os

import click

from sluice.commands import options
from sluice.kafka.kafka_errors import PropertyError
from sluice.model.secrets import MissingSecretError, substitute
from sluice_demo.play_flights import SPEED, play_flights


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


def looked_up(kafka: dict[str, str]) -> dict[str, str]:
    """The properties with ${...} replaced by values, as in a pipeline file. Raises PropertyError if one is missing."""
    try:
        return {name: substitute(text, os.environ) for name, text in kafka.items()}
    except MissingSecretError as missing:
        expected, got = missing.args[1], missing.args[0]
        message = f"--kafka: expected {expected}, got {got}"
        raise PropertyError(message) from missing
