"""Shows the board: as a picture that is updated in place in a terminal, as plain lines elsewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from datetime import datetime
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sluice_demo.departures_board import Airport, Board, Summary
from sluice_demo.flights import AIRPORTS, NEW_YORK

#: minutes of delay at which a bar has its full length
FULL = 60
BAR = 24


class Screen(AbstractContextManager["Screen"], ABC):
    #: seconds between two updates
    interval: float

    @abstractmethod
    def say(self, text: str) -> None: ...

    @abstractmethod
    def show(self, board: Board) -> None: ...


class LiveScreen(Screen):
    interval = 0.1

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def say(self, text: str) -> None:
        self._live.console.print(text, highlight=False)

    def show(self, board: Board) -> None:
        self._live.update(picture(board), refresh=True)


class PlainScreen(Screen):
    interval = 1.0

    def __init__(self, console: Console) -> None:
        self._console = console
        self._line = ""
        self._day = ""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def say(self, text: str) -> None:
        self._console.out(text, highlight=False)
        self._console.file.flush()

    def show(self, board: Board) -> None:
        if board.airports and line(board) != self._line:
            self._line = line(board)
            self.say(self._line)
        complete = [day for day, airports in board.days.items() if day > self._day and len(airports) == len(AIRPORTS)]
        if complete:
            self._day = max(complete)
            self.say(day_line(self._day, board.days[self._day]))


def screen(console: Console) -> Screen:
    return LiveScreen(console) if console.is_terminal and not console.is_dumb_terminal else PlainScreen(console)


# ---- plain lines ---------------------------------------------------------------------------------------------------


def line(board: Board) -> str:
    delays = "  ".join(f"{name} {board.airports[name].delay:.1f}" for name in AIRPORTS if name in board.airports)
    return f"{moment(board)}  average delay of the last 100: {delays}  ({rates(board)})"


def day_line(day: str, airports: dict[str, Summary]) -> str:
    return f"{day}  " + "  ".join(f"{name}: {describe(airports[name])}" for name in AIRPORTS if name in airports)


def describe(day: Summary) -> str:
    return f"{day.departures} departures, {day.delay:.1f} min late, worst {day.worst:.0f} min ({day.worst_flight})"


def moment(board: Board) -> str:
    """The time of the last departure, in New York: `2013-01-05 14:23`."""
    return f"{local(board.clock):%Y-%m-%d %H:%M}"


def local(time: str) -> datetime:
    return datetime.fromisoformat(time).astimezone(NEW_YORK)


def rates(board: Board) -> str:
    return f"in {board.rate_in:,.0f}/s, out {board.rate_out:,.0f}/s, lag {board.lag:,}"


# ---- the live picture ----------------------------------------------------------------------------------------------


def picture(board: Board) -> RenderableType:
    clock = f"{moment(board)} in New York" if board.clock else "waiting for the first window"
    return Group(
        Text(f"\nAverage delay of the last 100 departures  ·  {clock}\n", "italic"),
        airports_table(board),
        Text("\nDays: departures, average and worst delay, and whose\n", "italic"),
        days_table(board),
        Text(footer(board), "dim"),
    )


def airports_table(board: Board) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="")
    table.add_column("", style="bold", width=10)
    table.add_column("last at")
    table.add_column("departures", justify="right")
    table.add_column("minutes", justify="right")
    table.add_column(width=BAR)
    for name in AIRPORTS:
        table.add_row(name, *(airport_row(board.airports[name]) if name in board.airports else ()))
    return table


def airport_row(airport: Airport) -> tuple[RenderableType, ...]:
    bar = "█" * max(0, min(BAR, round(airport.delay / FULL * BAR)))
    color = "green" if airport.delay < FULL / 4 else "yellow" if airport.delay < FULL / 2 else "red"
    return f"{local(airport.time):%H:%M}", str(airport.departures), f"{airport.delay:.1f}", Text(bar, color)


def days_table(board: Board) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("", style="bold", width=10)
    for name in AIRPORTS:
        table.add_column(name, width=21)
    for day in sorted(board.days, reverse=True):
        airports = board.days[day]
        table.add_row(day, *(day_cell(airports[name]) if name in airports else "" for name in AIRPORTS))
    return table


def day_cell(day: Summary) -> str:
    return f"{day.departures:3d} {day.delay:5.1f} {day.worst:4.0f} {day.worst_flight.replace(' ', '')}"


def footer(board: Board) -> str:
    return (
        f"\nin {board.tuples_in:,} tuples, {board.marks_in:,} marks  ·  "
        f"out {board.delays_out + board.days_out:,} tuples, {board.marks_out:,} marks\n{rates(board)}"
    )


# ---- the end -------------------------------------------------------------------------------------------------------


def summary(board: Board, *, interrupted: bool) -> str:
    end = "Interrupted" if interrupted else "Done"
    days = "1 day was" if board.days_in == 1 else f"{board.days_in} days were"
    return "\n".join(
        (
            f"{end}. {days} played, without the year's {board.cancelled:,} cancelled flights.",
            f"  in   {board.tuples_in:>9,} tuples: departures",
            f"       {board.marks_in:>9,} marks: ends of days, in each topic partition",
            f"  out  {board.delays_out:>9,} tuples: averages of the last 100 departures",
            f"       {board.days_out:>9,} tuples: days of an airport",
            f"       {board.marks_out:>9,} marks: a header of each of these",
            f"       {board.dead:>9,} dead letters",
        )
    )
