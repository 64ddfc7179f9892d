"""Tuples that return to an operator before the one that wrote them, in a replay: directly after their event."""

from __future__ import annotations

import random
from typing import Any

import pytest

from sluice.config.load import load, load_text
from sluice.files import project_file
from sluice.replayer import player
from sluice.replayer.event_file import EventError
from sluice.replayer.player import replay
from sluice.testing import PipelineTest

FOLLOW = load(project_file("examples/recipes/follow.yaml"), environment={})

COUNTDOWN = """
pipeline: countdown
streams:
  starts: {{topic: starts, schema: {{n: int64}}}}
  less: {{topic: less, exchange: true, schema: {{n: int64}}}}
  all: {{topic: all}}
operators:
  - {{name: all, map: [starts, less], output: [all]}}
  - {{name: less, map: all, where: {where}, output: {{less: {{n: n - 1}}}}}}
"""


def bars(prices: list[tuple[str, float]]) -> list[dict[str, Any]]:
    """The bars of these symbols and prices, one price at a time: slow and obvious."""
    ranges: dict[str, float] = {}
    opened: dict[str, list[float]] = {}
    found = []
    for symbol, price in prices:
        bar = opened.setdefault(symbol, [])
        if bar and price - bar[0] > ranges.get(symbol, 2.0):
            found.append({"symbol": symbol, "first": bar[0], "last": bar[-1], "prices": len(bar)})
            ranges[symbol] = max(bar) - min(bar) + 1.0
            bar.clear()
        bar.append(price)
    return found


@pytest.mark.parametrize("batch", [1, 3, 1000])
def test_the_next_window_has_the_size_that_the_last_one_gave(batch: int):
    choose = random.Random(5)
    prices = [(choose.choice("AB"), float(n // 4 + choose.randrange(8))) for n in range(300)]
    events = [
        {"at": n, "stream": "ticks", "tuple": {"symbol": symbol, "price": price}}
        for n, (symbol, price) in enumerate(prices)
    ]
    made = replay(FOLLOW, events, batch=batch)
    found = [record["tuple"] for record in made if record.get("stream") == "bars" and "tuple" in record]
    assert found == bars(prices)
    assert len({bar["prices"] for bar in found}) > 3


def test_tuples_return_until_none_does():
    test = PipelineTest(COUNTDOWN.format(where="n > 0"))
    test.send("starts", {"n": 3}).expect_tuples("all", {"n": 3}, {"n": 2}, {"n": 1}, {"n": 0})
    test.send("starts", {"n": 0}).expect_tuples("all", {"n": 0})
    test.restart().send("starts", {"n": 1}).expect_tuples("all", {"n": 1}, {"n": 0})


def test_tuples_that_return_for_ever_are_an_error(monkeypatch):
    assert player.MAX_RETURNS == 10_000
    monkeypatch.setattr(player, "MAX_RETURNS", 100)
    events = [{"at": 0, "tuple": {"n": 0}}, {"at": 1, "tuple": {"n": 3}}]
    pipeline = load_text(COUNTDOWN.format(where="n != 0"), "countdown.yaml")
    assert len(list(replay(pipeline, events))) == 1 + 4 + 3
    with pytest.raises(EventError, match="event 1: its tuples return by less more than 100 times"):
        list(replay(pipeline, [*events[:1], {"at": 1, "tuple": {"n": -1}}]))


def test_no_operator_of_a_cycle_is_final():
    records = list(replay(FOLLOW, [{"at": 0, "stream": "ticks", "punct": "final"}]))
    assert records == []
