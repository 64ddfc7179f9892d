from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from sluice_demo.departures_board import DAYS, SPAN, Board
from sluice_demo.screen import LiveScreen, PlainScreen, day_line, line, picture, screen, summary


def delay(origin: str, time: str, departures: int, average: float) -> dict[str, Any]:
    return {"origin": origin, "time": time, "departures": departures, "delay": average}


def day(origin: str, date: str, departures: int) -> dict[str, Any]:
    worst = {"worst": 301.0, "worst_carrier": "UA", "worst_flight": 1545}
    return {"origin": origin, "date": date, "departures": departures, "delay": 12.345, **worst}


@pytest.fixture
def board() -> Board:
    board = Board(cancelled=8255)
    board.tick(now=100.0)
    board.sent(days=1, tuples=1205, marks=4)
    board.delay(delay("EWR", "2013-01-01T10:17:00Z", 1, 2.0))
    board.delay(delay("JFK", "2013-01-01T10:42:00Z", 1, -7.5))
    board.delay(delay("EWR", "2013-01-02T03:59:00Z", 2, 45.25))
    for origin, departures in [("EWR", 300), ("JFK", 297), ("LGA", 238)]:
        board.day(day(origin, "2013-01-01", departures))
    board.marks_out = 4
    board.tick(now=102.0)
    return board


def printed(board: Board, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(picture(board))
    return "\n".join(row.rstrip() for row in console.file.getvalue().splitlines())  # type: ignore[attr-defined]


def test_the_live_picture(board: Board) -> None:
    assert printed(board) == PICTURE


def test_before_anything_came_out() -> None:
    assert "waiting for the first window" in printed(Board())


def test_plain_lines(board: Board) -> None:
    delays = "EWR 45.2  JFK -7.5"
    assert line(board) == (f"2013-01-01 22:59  average delay of the last 100: {delays}  (in 602/s, out 3/s, lag 1,202)")
    assert day_line("2013-01-01", board.days["2013-01-01"]) == (
        "2013-01-01  EWR: 300 departures, 12.3 min late, worst 301 min (UA 1545)  "
        "JFK: 297 departures, 12.3 min late, worst 301 min (UA 1545)  "
        "LGA: 238 departures, 12.3 min late, worst 301 min (UA 1545)"
    )


def test_a_plain_screen_says_news_only_and_days_when_all_airports_have_ended_them(board: Board) -> None:
    console = Console(file=io.StringIO(), width=80)
    board.day(day("EWR", "2013-01-02", 1))
    plain = PlainScreen(console)
    plain.show(board)
    plain.show(board)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert [text[:30] for text in lines] == ["2013-01-01 22:59  average dela", "2013-01-01  EWR: 300 departure"]


def test_a_terminal_is_shown_pictures_and_a_file_lines() -> None:
    assert isinstance(screen(Console(file=io.StringIO(), force_terminal=True, _environ={})), LiveScreen)
    assert isinstance(screen(Console(file=io.StringIO(), force_terminal=False)), PlainScreen)
    assert isinstance(screen(Console(force_terminal=True, _environ={"TERM": "dumb"})), PlainScreen)


def test_summary(board: Board) -> None:
    assert summary(board, interrupted=False) == SUMMARY
    assert summary(board, interrupted=True).startswith("Interrupted. ")


def test_the_board_keeps_the_last_days() -> None:
    board = Board()
    for number in range(1, DAYS + 3):
        board.day(day("EWR", f"2013-01-{number:02d}", number))
    assert list(board.days) == [f"2013-01-{number:02d}" for number in range(3, DAYS + 3)]


def test_rates_are_of_the_last_seconds() -> None:
    board = Board()
    for second in range(10):
        board.sent(0, 1000 if second < 5 else 1000 + 200 * (second - 4), 0)
        board.tick(now=float(second))
    assert board.rate_in == pytest.approx(200.0)
    board.tick(now=9.0 + 2 * SPAN)
    assert board.rate_in == 0.0


def test_the_demo_waits_for_an_average_per_departure_and_a_summary_per_day_and_airport(board: Board) -> None:
    assert not board.incomplete(tuples=3, summaries=3)
    assert board.incomplete(tuples=4, summaries=3)
    assert board.incomplete(tuples=3, summaries=4)
    board.dead = 1  # whatever it was, its day is not complete any more
    assert not board.incomplete(tuples=4, summaries=4)


PICTURE = """
Average delay of the last 100 departures  ·  2013-01-01 22:59 in New York

            last at  departures  minutes
EWR         22:59             2     45.2  ██████████████████
JFK         05:42             1     -7.5
LGA

Days: departures, average and worst delay, and whose

           EWR                   JFK                   LGA
2013-01-01 300  12.3  301 UA1545 297  12.3  301 UA1545 238  12.3  301 UA1545

in 1,205 tuples, 4 marks  ·  out 6 tuples, 4 marks
in 602/s, out 3/s, lag 1,202"""

SUMMARY = """\
Done. 1 day was played, without the year's 8,255 cancelled flights.
  in       1,205 tuples: departures
               4 marks: ends of days, in each topic partition
  out          3 tuples: averages of the last 100 departures
               3 tuples: days of an airport
               4 marks: a header of each of these
               0 dead letters"""
