"""`sluice-demo run`: starts a Kafka broker, the service, the player and the reader, and prints a summary at the end."""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from math import ceil
from pathlib import Path
from types import FrameType

import click
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.console import Console

from sluice.kafka.embedded_broker import EmbeddedBroker
from sluice.kafka.topics import create
from sluice_demo.demo_service import Service, ServiceError
from sluice_demo.departures_board import Board, Reader
from sluice_demo.flight_player import Player
from sluice_demo.flights import Flights, load, path_of_table
from sluice_demo.screen import Screen, screen, summary

FLIGHTS, DELAYS, DAYS, DEAD = "flights", "flights.delays", "flights.days", "flights.dead"
TOPIC_PARTITIONS = 4  # with this number each of the 3 airports has a topic partition of its own, and one stays empty
DAYS_PER_SECOND = 1.0
#: seconds without output after which the demo fails
OUTPUT_TIMEOUT_S = 180


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
    play_and_show(None if everything else seconds)


def play_and_show(seconds: int | None) -> None:
    """Plays one day per second for `seconds` seconds; None plays the whole year as fast as possible.

    All processes and files are removed at the end. Ctrl-C and SIGTERM end it early, with the same clean-up.
    """
    path_of_table()  # the package may be missing, and a broker takes seconds to start
    console, board = Console(), Board()
    with _interruptible() as interrupted, ExitStack() as stack:
        view = stack.enter_context(screen(console))
        _run(seconds, board, view, stack)
    console.print(summary(board, interrupted=interrupted()), highlight=False)


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """Leaves the block at the first Ctrl-C or SIGTERM, and ignores further ones so that the clean-up completes.

    Yields a function that returns whether there was one.
    """
    seen: list[int] = []

    def interrupt(number: int, _: FrameType | None) -> None:
        for handled in before:
            signal.signal(handled, signal.SIG_IGN)
        seen.append(number)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(seen)
    except KeyboardInterrupt:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(seconds: int | None, board: Board, view: Screen, stack: ExitStack) -> None:
    view.say("Starting a Kafka broker ...")
    bootstrap = stack.enter_context(EmbeddedBroker()).bootstrap
    create({"bootstrap.servers": bootstrap}, NewTopic(FLIGHTS, TOPIC_PARTITIONS))

    view.say("Starting the service ...")
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sluice-demo-", ignore_cleanup_errors=True))
    service = stack.enter_context(Service(bootstrap, Path(folder)))
    flights = load()
    board.cancelled = flights.cancelled
    _await_topics(AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}), service)
    view.say(f"The page of the service is at {service.page}")

    reader = Reader(bootstrap, board, DELAYS, DAYS, DEAD)
    stack.callback(reader.close)
    player = _player(bootstrap, flights, seconds)
    player.start()
    stack.callback(player.stop)
    _watch(board, view, player, reader, service)


def _await_topics(admin: AdminClient, service: Service) -> None:
    """Waits until the service has created its output topics, which it does when it starts."""
    while not {DELAYS, DAYS, DEAD} <= {*admin.list_topics(timeout=30).topics}:
        service.check()
        time.sleep(0.1)


def _player(bootstrap: str, flights: Flights, seconds: int | None) -> Player:
    kafka = {"bootstrap.servers": bootstrap}
    if seconds is None:
        return Player(kafka, FLIGHTS, TOPIC_PARTITIONS, flights, None)
    days = islice(flights, ceil(seconds * DAYS_PER_SECOND))
    return Player(kafka, FLIGHTS, TOPIC_PARTITIONS, days, DAYS_PER_SECOND)


def _watch(board: Board, view: Screen, player: Player, reader: Reader, service: Service) -> None:
    """Updates the board and the screen until the outputs of all played flights have been read. Raises ServiceError."""
    shown = moved = time.monotonic()
    while player.is_alive() or board.incomplete(player.tuples, player.summaries):
        before = board.out
        reader.read(min(view.interval, 0.1))
        if board.days_out:
            player.go()
        now = time.monotonic()
        moved = now if board.out > before else moved
        if now - shown >= view.interval:
            shown = now
            board.sent(player.days, player.tuples, player.marks)
            board.tick(now)
            view.show(board)
            service.check()
        if player.error:
            raise ServiceError(f"the broker did not take a record: {player.error}")
        if now - moved > OUTPUT_TIMEOUT_S:
            raise ServiceError(f"no output for {OUTPUT_TIMEOUT_S} seconds; the log of the service:\n{service.log()}")
    board.sent(player.days, player.tuples, player.marks)
    view.show(board)
