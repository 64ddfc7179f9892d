"""Replays of whole pipelines: several operators, several streams, whatever the batches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sluice
from sluice.config.load import load_text
from sluice.model.errors import SluiceError
from sluice.model.spec import Pipeline
from sluice.replayer.event_file import EventError
from sluice.replayer.player import shown

Record = dict[str, Any]


def pipeline(text: str) -> Pipeline:
    return load_text(text, "pipeline.yaml", environment=None)


def everything(of: Pipeline, events: list[Record], **settings: Any) -> list[Record]:
    """What comes out, after a look that no cut changes it."""
    whole = list(sluice.replay(of, events, **settings))
    for batch in (1, 2, 3, 7):
        assert list(sluice.replay(of, events, batch=batch, **settings)) == whole, f"batches of {batch}"
    return whole


def briefly(records: list[Record]) -> list[str]:
    """`0 stream value value` or `0 stream ■`."""
    return [
        f"{r['after']} {r['stream']} " + (" ".join(map(str, r["tuple"].values())) if "tuple" in r else r["punct"])
        for r in records
    ]


def tuples(*rows: Record) -> list[Record]:
    """One event per second."""
    return [{"at": at, "tuple": row} for at, row in enumerate(rows)]


# ---- several operators -----------------------------------------------------------------------------------------------

CHAIN = """
pipeline: chain
streams:
  numbers: {topic: numbers, schema: {k: string, x: int64}}
  pairs: {}
  large: {}
  fours: {topic: fours}
operators:
  - name: pair
    aggregate: numbers
    window: tumbling, count(2), partitioned
    partition_by: [k]
    output: {pairs: {k: k, sum: Sum(x)}}
  - name: keep
    map: pairs
    where: sum > 2
    output: {large: {k: upper(k), twice: sum * 2}}
  - name: collect
    aggregate: large
    window: tumbling, punct()
    output: {fours: {keys: Collect(k), all: Collect(twice)}}
"""


def test_an_aggregate_feeds_a_map_feeds_an_aggregate():
    """A pair's mark passes the map, also where its tuple does not, and closes the window behind it."""
    rows = [{"k": k, "x": x} for k, x in (("a", 1), ("b", 0), ("a", 2), ("b", 1), ("a", 5), ("a", 5))]
    got = briefly(everything(pipeline(CHAIN), [*tuples(*rows), {"at": 9, "punct": "final"}]))
    assert got == ["2 fours ['A'] [6]", "2 fours window", "3 fours window", "5 fours ['A'] [20]", "5 fours window",
                   "6 fours final"]  # fmt: skip


BURSTS = """
pipeline: bursts
streams:
  numbers: {topic: numbers, schema: {x: int64}}
  pairs: {topic: pairs}
  ticks: {topic: ticks}
operators:
  - {name: tick, aggregate: pairs, window: "tumbling, time(4)", output: {ticks: {sums: Collect(sum)}}}
  - {name: pair, aggregate: numbers, window: "tumbling, count(2)", output: {pairs: {sum: Sum(x)}}}
"""


def test_a_count_window_feeds_a_time_window():
    got = briefly(everything(pipeline(BURSTS), [*tuples(*({"x": x} for x in range(8))), {"at": 12.5}]))
    assert got == [
        "1 pairs 1", "1 pairs window",
        "3 pairs 5", "3 pairs window",
        "4 ticks [1, 5]", "4 ticks window",
        "5 pairs 9", "5 pairs window",
        "7 pairs 13", "7 pairs window",
        "8 ticks [9, 13]", "8 ticks window",
        "8 ticks window",
    ]  # fmt: skip


TWO_TIMERS = """
pipeline: timers
streams:
  numbers: {topic: numbers, schema: {x: int64}}
  fast: {topic: fast}
  slow: {topic: slow}
operators:
  - {name: second, aggregate: fast, window: "tumbling, time(4)", output: {slow: {sums: Collect(sum)}}}
  - {name: first, aggregate: numbers, window: "tumbling, time(2)", output: {fast: {sum: Sum(x)}}}
"""


def test_a_tick_that_reaches_another_timer_at_the_same_time_comes_after_it():
    """At 4 both are due. A timer fires before what arrives at its time, also if that was made by a timer."""
    events: list[Record] = [*tuples(*({"x": x} for x in range(4))), {"at": 8.5}]
    assert briefly(everything(pipeline(TWO_TIMERS), events)) == [
        "2 fast 1", "2 fast window",
        "4 fast 5", "4 fast window", "4 slow [1]", "4 slow window",
        "4 fast window", "4 fast window", "4 slow [5]", "4 slow window",
    ]  # fmt: skip


SPLIT = """
pipeline: split
streams:
  numbers: {topic: numbers, schema: {x: int64}}
  even: {topic: even}
  odd: {topic: odd}
operators:
  - {name: evens, map: numbers, where: x % 2 == 0, output: {even: {x: x}}}
  - {name: odds, map: numbers, where: x % 2 == 1, output: {odd: {x: x}}}
"""


def test_marks_pass_a_map_in_their_places_and_the_final_mark_when_all_topic_partitions_have_sent_it():
    events: list[Record] = [
        {"at": 0, "tuple": {"x": 1}}, {"at": 0, "punct": "window"}, {"at": 0, "tuple": {"x": 2}, "topic_partition": 1},
        {"at": 1, "punct": "final"}, {"at": 1, "tuple": {"x": 3}}, {"at": 1, "tuple": {"x": 5}, "topic_partition": 1},
        {"at": 2, "punct": "final", "topic_partition": 1}, {"at": 3, "tuple": {"x": 7}, "topic_partition": 1},
    ]  # fmt: skip
    assert briefly(everything(pipeline(SPLIT), events)) == [
        "0 odd 1", "1 even window", "1 odd window", "2 even 2", "5 odd 5", "6 even final", "6 odd final",
    ]  # fmt: skip


TWO_INPUTS = """
pipeline: inputs
streams:
  a: {topic: a, schema: {x: int64}}
  b: {topic: b, schema: {y: string}}
  as: {topic: as}
  bs: {topic: bs}
operators:
  - {name: of_b, aggregate: b, window: "tumbling, time(2)", output: {bs: {ys: Collect(y)}}}
  - {name: of_a, aggregate: a, window: "tumbling, time(1)", output: {as: {xs: Collect(x)}}}
"""


def test_several_inputs_share_the_clock():
    events = [
        {"at": 0.5, "stream": "a", "tuple": {"x": 1}},
        {"at": 1.5, "stream": "b", "tuple": {"y": "u"}},
        {"at": 2.5, "stream": "a", "tuple": {"x": 2}},
    ]
    assert briefly(everything(pipeline(TWO_INPUTS), events)) == [
        "1 as [1]", "1 as window", "2 bs ['u']", "2 bs window", "2 as window",
    ]  # fmt: skip


def test_streams_that_only_operators_read_are_not_shown():
    assert list(shown(pipeline(CHAIN))) == ["fours"]


REMAINDERS = """
pipeline: remainders
streams:
  numbers: {topic: numbers, schema: {x: int64, y: int64}}
  rests: {topic: rests}
  sums: {topic: sums}
operators:
  - {name: divide, map: numbers, output: {rests: {rest: x % y}}}
  - {name: add, aggregate: numbers, window: "tumbling, count(2)", output: {sums: {sum: Sum(x % y)}}}
"""


def test_a_tuple_without_a_value_is_a_dead_letter_and_the_next_one_is_handled():
    rows = [{"x": 7, "y": 4}, {"x": 1, "y": 0}, {"x": 5, "y": 3}]
    records = everything(pipeline(REMAINDERS), tuples(*rows))
    assert briefly([r for r in records if "stream" in r]) == ["0 rests 3", "2 rests 2", "2 sums 5", "2 sums window"]
    letters = [(r["after"], r["dead_letter"]) for r in records if "stream" not in r]
    assert [(n, letter["operator"], letter["reason"], letter["tuple"]) for n, letter in letters] == [
        (1, "divide", "rests.rest has no value: x % y", {"x": 1, "y": 0}),
        (1, "add", "x % y has no value", {"x": 1, "y": 0}),
    ]  # fmt: skip


def test_a_dead_letter_has_the_tuple_as_json_has_it():
    """To the nanosecond, with NaN and infinities, and null where there is no value."""
    text = """
pipeline: rests
streams: {numbers: {topic: n, schema: {x: int64, f: float64, fs: list<float64>, t: timestamp}}, rests: {topic: r}}
operators: [{name: divide, map: numbers, output: {rests: {rest: 1 % x}}}]
"""
    values = {"x": 0, "f": "NaN", "fs": ["Infinity", 1.5], "t": "1970-01-01T00:01:40.123456789Z"}
    (letter,) = everything(pipeline(text), tuples(values))
    assert letter["dead_letter"]["tuple"] == values


def test_a_missing_attribute_has_its_default():
    text = """
pipeline: defaults
streams: {in: {topic: i, schema: {k: string, v: float64, t: timestamp}, defaults: {v: 1.5, t: 7}}, out: {topic: o}}
operators: [{name: m, map: in, output: {out: {k: k, v: v, t: toSeconds(t)}}}]
"""
    records = everything(pipeline(text), tuples({"k": "a"}, {"k": "b", "v": None, "t": 8}, {"k": "c", "v": 2}))
    assert [record["tuple"] for record in records] == [
        {"k": "a", "v": 1.5, "t": 7.0}, {"k": "b", "v": 1.5, "t": 8.0}, {"k": "c", "v": 2.0, "t": 7.0},
    ]  # fmt: skip


# ---- values and the clock --------------------------------------------------------------------------------------------

TICKS = """
pipeline: ticks
streams:
  numbers: {topic: numbers, schema: {x: float64, t: timestamp}}
  ticks: {topic: ticks}
operators:
  - {name: tick, aggregate: numbers, window: "tumbling, time(10)", output: {ticks: {xs: Collect(x), t: Last(t)}}}
"""
PLAYED = [
    {"at": 1356998404, "tuple": {"x": 1, "t": 0.5}},
    {"at": 1356998405, "tuple": {"x": "NaN", "t": "2013-01-01 00:00"}},
    {"at": 1356998415},
]


def test_values_come_out_as_json_has_them():
    (record, _) = sluice.replay(pipeline(TICKS), PLAYED, clock_origin="first")
    assert record == {"after": 2, "stream": "ticks", "tuple": {"xs": [1.0, "NaN"], "t": "2013-01-01T00:00:00Z"}}


@pytest.mark.parametrize(
    ("origin", "ticks"),
    [
        ("first", [2]), (1356998401, [2]), (1356998394.5, [1, 2]), ("1356998384", [0, 0, 2]), ("1356998407", []),
        ("2013-01-01T00:00:01Z", [2]),
    ],
)  # fmt: skip
def test_timers_count_from_the_clocks_origin(origin: Any, ticks: list[int]):
    records = everything(pipeline(TICKS), PLAYED, clock_origin=origin)
    assert [r["after"] for r in records if "punct" in r] == ticks


def test_the_pipeline_file_may_say_where_the_clock_starts():
    records = everything(pipeline(TICKS + "clock_origin: 2013-01-01T00:00:01Z\n"), PLAYED)
    assert [r["after"] for r in records if "punct" in r] == [2]


#: PLAYED with times in ISO 8601
DATED = [
    event | {"at": text}
    for event, text in zip(
        PLAYED, ("2013-01-01T00:00:04Z", "2013-01-01T00:00:05Z", "2013-01-01T01:00:15+01:00"), strict=True
    )
]


@pytest.mark.parametrize(
    ("more", "origin"),
    [("", "first"), ("clock_origin: 2013-01-01T00:00:01Z\n", None), ("", 1356998394.5)],
    ids=["nothing", "file", "command"],
)
def test_timers_count_from_the_first_time_that_is_a_text_unless_an_origin_is_given(more: str, origin: Any):
    given = None if origin == "first" else origin
    records = everything(pipeline(TICKS + more), DATED, clock_origin=given)
    assert records == everything(pipeline(TICKS + more), PLAYED, clock_origin=origin)


def test_a_million_ticks_before_the_first_event_are_a_mistake():
    with pytest.raises(EventError, match=r"event 0: .* more than 1,000,000 timer periods of 10 s .* clock_origin"):
        list(sluice.replay(pipeline(TICKS), PLAYED))


@pytest.mark.parametrize(
    ("window", "more", "stored"),
    [
        ("tumbling, time(1)", "", 1),
        ("tumbling, time(1), partitioned", "partition_by: [k],", 1),
        ("sliding, time(1.5), time(1)", "aggregate_incomplete_windows: true,", 2),
    ],
)
def test_a_clock_that_jumps_by_years_passes_over_all_but_a_million_empty_ticks(window: str, more: str, stored: int):
    text = f"""
pipeline: old
streams: {{in: {{topic: in, schema: {{k: string}}}}, out: {{topic: out}}}}
operators: [{{name: one, aggregate: in, window: "{window}", {more} output: {{out: {{n: Count()}}}}}}]
"""
    events = [{"at": at, "tuple": {"k": "a"}} for at in (0, 400_000_000.5)]
    marks = [r["after"] for r in sluice.replay(pipeline(text), [*events, {"at": 400_000_002}]) if "punct" in r]
    assert [marks.count(event) for event in range(3)] == [0, stored + 1_000_000, 2]


def test_an_origin_that_is_no_time():
    with pytest.raises(
        SluiceError, match=r'^clock_origin is seconds, or an ISO 8601 time such as .*, or "first"; got "today"$'
    ):
        list(sluice.replay(pipeline(TICKS), PLAYED, clock_origin="today"))


def test_nothing_comes_out_of_no_events():
    assert list(sluice.replay(pipeline(TICKS), [])) == []


def test_files_are_read_by_name(tmp_path: Path):
    (tmp_path / "ticks.yaml").write_text(TICKS)
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in PLAYED))
    events = tmp_path / "events.jsonl"
    records = list(sluice.replay(tmp_path / "ticks.yaml", str(events), clock_origin="first"))
    assert records == list(sluice.replay(pipeline(TICKS), PLAYED, clock_origin="first"))


def test_a_replay_shows_the_timestamps_of_records_that_have_one_of_their_own():
    """A pair that cannot be a timestamp gets the time of the clock. Operators still read the attribute."""
    text = CHAIN.replace("pairs: {}", "pairs: {topic: pairs, record_timestamp: sum}")
    events = tuples(*({"k": "a", "x": x} for x in (1400, 100, -9, 2)))
    made = everything(pipeline(text), [*events, {"at": 9, "punct": "final"}])
    pairs = [(one["tuple"]["sum"], one["timestamp"]) for one in made if one["stream"] == "pairs" and "tuple" in one]
    assert pairs == [(1500, "1970-01-01T00:00:01.5Z"), (-7, "1970-01-01T00:00:03Z")]
    assert [one["tuple"]["all"] for one in made if one["stream"] == "fours" and "tuple" in one] == [[3000]]
    assert all("timestamp" not in one for one in made if one["stream"] == "fours" or "punct" in one)
