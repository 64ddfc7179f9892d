"""The command line of `sluice-demo run`."""

from __future__ import annotations

import click

from sluice_demo.demo_run import run


@click.command()
@click.option(
    "--seconds",
    type=click.IntRange(min=1),
    default=60,
    show_default=True,
    help="Number of days to play, one per second.",
)
@click.option("--all", "everything", is_flag=True, help="Play the whole year as fast as possible.")
def demo(seconds: int, everything: bool) -> None:  # noqa: FBT001 - click passes flags as booleans
    """Play the flights that left New York in 2013 through Kafka and Sluice, and show their delays.

    Starts a Kafka broker and the service of examples/flights.yaml, and ends both at the end.
    """
    run(None if everything else seconds)
