"""The program `sluice-demo` (or `python -m sluice_demo`): plays the flights of 2013 through Kafka and Sluice."""

from __future__ import annotations

import click

from sluice import __version__
from sluice.cli import Lazy, LazyGroup

COMMANDS = {
    "run": Lazy("sluice_demo.demo_run", "demo", "Play the flights through Kafka and Sluice, and show the results."),
    "broker": Lazy("sluice_demo.broker_command", "broker", "Run a Kafka broker on this machine, to try things out."),
    "play": Lazy("sluice_demo.play_command", "play", "Play the flights into a topic of any Kafka cluster."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sluice-demo")
def main() -> None:
    """Play the 336,776 flights that left New York in 2013."""


if __name__ == "__main__":
    main()
