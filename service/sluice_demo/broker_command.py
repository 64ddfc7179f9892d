"""The command line of `sluice-demo broker`."""

from __future__ import annotations

import socket

import click

from sluice.kafka.embedded_broker import BrokerError, EmbeddedBroker
from sluice.processes import stop_signals

#: seconds between two checks whether the broker still runs
INTERVAL_S = 0.5


@click.command()
@click.option(
    "--port", type=click.IntRange(1, 65535), default=9092, show_default=True, help="Port of the broker on 127.0.0.1."
)
def broker(port: int) -> None:
    """Run a Kafka broker on this machine, to try things out.

    Topics are created when a program writes to them. The broker ends at SIGTERM or Ctrl-C, and its records are then
    removed.
    """
    with socket.socket() as probe:
        if not probe.connect_ex(("127.0.0.1", port)):
            raise BrokerError(f"another program has port {port}: give another one with --port")
    with stop_signals() as stop, EmbeddedBroker(port=port) as running:
        click.echo(f"a broker runs at {running.bootstrap}; Ctrl-C ends it and removes its records")
        while not stop.wait(INTERVAL_S):
            if running.exit_code is not None:
                raise BrokerError(f"the broker has ended with exit code {running.exit_code}")
