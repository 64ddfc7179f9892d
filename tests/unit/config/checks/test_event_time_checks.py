"""Event time in the file: which attribute it is, the windows over it, and all that may be wrong with either."""

import pytest

from sluice.config.load import check, load_text
from sluice.model.errors import PipelineError
from sluice.model.spec import EventTime, SlidingTime, TimeInterval

SECOND = 10**9
FILE = """
pipeline: p
streams:
  trades:
    topic: trades
    schema: {{symbol: string, price: float64, size: int64, time: timestamp}}
    event_time: {event_time}
  made: {{topic: made}}
operators:
  - name: window
    aggregate: trades
    window: {window}
    partition_by: [{by}]
    {more}
    output: {{made: {{{output}}}}}
"""


def loaded(window="timeInterval, intervalDuration(10)", event_time="time", by="", more="", output="n: Count()"):
    return load_text(FILE.format(window=window, event_time=event_time, by=by, more=more, output=output), "file.yaml")


def problems(**parts):
    with pytest.raises(PipelineError) as raised:
        loaded(**parts)
    return [f"{p.path}: expected {p.expected}, got {p.got}" for p in raised.value.problems]


WINDOWS = {
    "timeInterval, intervalDuration(10)": TimeInterval(10 * SECOND, 10 * SECOND),
    "timeInterval, intervalDuration(2.3), creationPeriod(1.1), discardAge(0.5), intervalOffset(2.5)":
        TimeInterval(2_300_000_000, 1_100_000_000, 500_000_000, 300_000_000),
    "discardAge(1), timeInterval, intervalDuration(1e-9)": TimeInterval(1, 1, SECOND),
    "slidingTime, timeDifference(10)": SlidingTime(10 * SECOND),
    "slidingTime, timeDifference(0.010), grace(2.5)": SlidingTime(10_000_000, 2_500_000_000),
}  # fmt: skip


@pytest.mark.parametrize(("clause", "window"), WINDOWS.items())
def test_windows(clause, window):
    (operator,) = loaded(clause).operators
    assert operator.window == window


MANY_PANES = {
    "timeInterval, intervalDuration(10000), creationPeriod(1)": [],
    "timeInterval, intervalDuration(86400), creationPeriod(0.001)": [
        "each tuple is in 86,400,000 panes, each of which gives a result"
    ],
    "timeInterval, intervalDuration(1e-6)": ["1,000,000 panes begin in each second of event time"],
}


@pytest.mark.parametrize(("clause", "texts"), MANY_PANES.items())
def test_panes_without_number_are_legal_but_perhaps_not_meant(clause, texts, tmp_path):
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        FILE.format(window=clause, event_time="{attribute: time, lag: 0}", by="", more="", output="n: Count()")
    )
    checked = check(file)
    assert checked.pipeline
    assert [caution.text for caution in checked.cautions] == texts


def test_partitioned():
    (operator,) = loaded("timeInterval, intervalDuration(10), partitioned", by="symbol").operators
    assert operator.window.partitioned
    (operator,) = loaded("slidingTime, timeDifference(10)", by="symbol").operators
    assert len(operator.partition_by) == 1


def test_sliding_time_says_when_it_comes_out_and_which_windows_there_are():
    more = "emit: updates\n    window_set: perTimestampBackward"
    (operator,) = loaded("slidingTime, timeDifference(1)", more=more).operators
    assert operator.window == SlidingTime(SECOND, 0, "perTimestampBackward", "updates")


EVENT_TIMES = {
    "time": EventTime("time"),
    "size": EventTime("size", 1_000_000),
    "price": EventTime("price"),
    "{attribute: size, resolution: microseconds}": EventTime("size", 1000),
    "{attribute: time, lag: 2.5, minimum_gap: 1, idle_after: 60, max_future: 3600}":
        EventTime("time", 1, 2_500_000_000, SECOND, 60 * SECOND, 3600 * SECOND),
}  # fmt: skip


@pytest.mark.parametrize(("text", "event_time"), EVENT_TIMES.items())
def test_event_time(text, event_time):
    assert loaded(event_time=text).streams["trades"].event_time == event_time


@pytest.mark.parametrize(
    ("output", "event_time"),
    [
        ("time: intervalEnd()", EventTime("time")),  # the same name and type (E2)
        ("time: Last(size)", None),
        ("end: intervalEnd()", None),
    ],
)
def test_streams_behind_inherit_event_time_where_they_have_the_attribute(output, event_time):
    assert loaded(output=output).streams["made"].event_time == event_time


def test_what_is_told_of_a_window_has_the_type_of_the_event_time():
    output = "s: intervalStart(), i: paneIndex(), t: paneTiming()"
    assert str(loaded(output=output).streams["made"].schema[0][1]) == "timestamp"
    assert str(loaded(event_time="size", output=output).streams["made"].schema[0][1]) == "int64"
    assert [str(type_) for _, type_ in loaded(event_time="price", output=output).streams["made"].schema] == [
        "float64", "int64", "string",
    ]  # fmt: skip


TIME_INTERVAL = "timeInterval, intervalDuration(10)"
WRONG = {
    "no such attribute": (
        {"event_time": "tme"},
        "streams.trades.event_time: expected an attribute of trades (symbol, price, size, time) (rule W16), got tme",
    ),
    "an attribute that is no time": (
        {"event_time": "symbol"},
        (
            "streams.trades.event_time: expected a timestamp, an int64 or a float64 with seconds, not symbol, a string "
            "(rule W27), got symbol"
        ),
    ),
    "a resolution of a timestamp": (
        {"event_time": "{attribute: time, resolution: nanoseconds}"},
        "streams.trades.event_time.resolution: expected none, as time is a timestamp (rule W27), got nanoseconds",
    ),
    "an unknown key": (
        {"event_time": "{attribute: time, dely: 3}"},
        (
            "streams.trades.event_time.dely: expected one of the keys attribute, resolution, lag, "
            "minimum_gap, idle_after, per, forget_after, advance, "
            "max_future, got dely"
        ),
    ),
    "a negative lag": (
        {"event_time": "{attribute: time, lag: -1}"},
        "streams.trades.event_time.lag: expected a number that is at least 0, got -1",
    ),
    "a duration of 0": (
        {"window": "timeInterval, intervalDuration(0)"},
        (
            "operators[0].window: expected intervalDuration(seconds) with a number above 0, such as 30, 30s, 5m, 1h "
            "or 1d (rule W26), got intervalDuration(0)"
        ),
    ),
    "a negative age": (
        {"window": f"{TIME_INTERVAL}, discardAge(-1)"},
        (
            "operators[0].window: expected discardAge(seconds) with a number from 0 on, such as 30, 30s, 5m, 1h or 1d "
            "(rule W26), got discardAge(-1)"
        ),
    ),
    "a part twice": (
        {"window": f"{TIME_INTERVAL}, intervalDuration(10)"},
        "operators[0].window: expected intervalDuration only once (rule W12), got intervalDuration(10)",
    ),
    "a part of another window": (
        {"window": f"{TIME_INTERVAL}, count(1)"},
        (
            "operators[0].window: expected intervalDuration, creationPeriod, discardAge, intervalOffset or partitioned "
            "in a timeInterval window (rule W12), got count(1)"
        ),
    ),
    "a part in another window": (
        {"window": "sliding, count(1), discardAge(1)"},
        (
            "operators[0].window: expected discardAge only in a timeInterval or cumulate window (rule W12), got "
            "discardAge(1)"
        ),
    ),
    "partition eviction": (
        {"window": f"{TIME_INTERVAL}, partitioned, partitionAge(1)", "by": "symbol"},
        "operators[0].window: expected no partition eviction in a timeInterval window (rule W17), got partitionAge(1)",
    ),
    "partitioned slidingTime": (
        {"window": "slidingTime, timeDifference(1), partitioned", "by": "symbol"},
        (
            "operators[0].window: expected no partitioned: a slidingTime window is partitioned by partition_by alone, "
            "got partitioned"
        ),
    ),
    "a difference of 0": (
        {"window": "slidingTime, timeDifference(0.0)"},
        (
            "operators[0].window: expected timeDifference(seconds) with a number above 0, such as 30, 30s, 5m, 1h "
            "or 1d (rule KIP T11), got timeDifference(0.0)"
        ),
    ),
    "half a millisecond": (
        {"window": "slidingTime, timeDifference(0.0005)"},
        (
            "operators[0].window: expected timeDifference(seconds) in whole milliseconds, in which the window counts, "
            "got timeDifference(0.0005)"
        ),
    ),
    "half a tick": (
        {"window": "timeInterval, intervalDuration(0.0005)", "event_time": "size"},
        (
            "operators[0].window: expected intervalDuration(seconds) in whole milliseconds, in which "
            "the window counts, "
            "got intervalDuration(0.0005)"
        ),
    ),
    "a century in nanoseconds": (
        {"window": "timeInterval, intervalDuration(3000000000)"},
        (
            "operators[0].window: expected sizes of less than 1152921504 seconds together, "
            "got timeInterval, intervalDuration(3000000000)"
        ),
    ),
    "incomplete windows": (
        {"more": "aggregate_incomplete_windows: true"},
        (
            "operators[0].aggregate_incomplete_windows: expected false, as the window is a timeInterval "
            "(rule E35), got true"
        ),
    ),
    "emit with another window": (
        {"more": "emit: final"},
        (
            "operators[0].emit: expected emit only with a slidingTime or session window; early: count(1) gives a "
            "result with each tuple, got timeInterval"
        ),
    ),
    "early results of panes that overlap": (
        {"window": "timeInterval, intervalDuration(60), creationPeriod(10)", "more": "early: time(10)"},
        (
            "operators[0].early: expected no early, as its panes overlap: creationPeriod is less than intervalDuration "
            "(rule F8), got time(10)"
        ),
    ),
    "early results of slidingTime": (
        {"window": "slidingTime, timeDifference(1)", "more": "early: time(10)"},
        (
            "operators[0].early: expected early only with a tumbling, timeInterval or session window (rule F8); a "
            "slidingTime window has emit: updates, got time(10)"
        ),
    ),
    "an unknown window set": (
        {"window": "slidingTime, timeDifference(1)", "more": "window_set: all"},
        "operators[0].window_set: expected distinct, perTimestampForward or perTimestampBackward, got all",
    ),
    "partition_by without partitioned": (
        {"by": "symbol"},
        (
            "operators[0].window: expected partitioned in the window clause, as partition_by is given (rule W19), "
            f"got {TIME_INTERVAL}"
        ),
    ),
    "pane functions elsewhere": (
        {"window": "sliding, count(1)", "output": "n: intervalStart()"},
        (
            "operators[0].output.made.n: expected no intervalStart() outside of a timeInterval, cumulate or "
            "slidingTime window (rule E32), got intervalStart()"
        ),
    ),
    "paneIndex in slidingTime": (
        {"window": "slidingTime, timeDifference(1)", "output": "n: paneIndex()"},
        (
            "operators[0].output.made.n: expected no paneIndex() outside of a timeInterval or cumulate window (rule "
            "E32), got paneIndex()"
        ),
    ),
    "a pane function with an argument": (
        {"output": "n: intervalStart(size)"},
        "operators[0].output.made.n: expected intervalStart() without arguments, got intervalStart(size)",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("window", "written", "hint"),
    [
        ("session, inactivityGap(5m)", "windowStart()", "sessionStart()"),
        ("session, inactivityGap(5m)", "intervalEnd()", "sessionEnd()"),
        (TIME_INTERVAL, "sessionStart()", "intervalStart()"),
        ("session, inactivityGap(5m)", "paneIndex()", None),
    ],
)
def test_the_function_that_says_the_same_of_this_window_is_named(window, written, hint):
    with pytest.raises(PipelineError) as raised:
        loaded(window=window, output=f"n: {written}")
    assert [(one.got, one.hint) for one in raised.value.problems] == [(written, hint)]


@pytest.mark.parametrize(("parts", "message"), WRONG.values(), ids=WRONG)
def test_wrong(parts, message):
    assert problems(**parts) == [message]


def test_streams_of_a_list_with_different_event_times_give_no_event_time():
    others = "topic: others, schema: {symbol: string, price: float64, size: int64, time: timestamp}, event_time: size"
    text = FILE.format(
        window="timeInterval, intervalDuration(10)", event_time="time", by="", more="", output="n: Count()"
    )
    text = text.replace("  made:", f"  others: {{{others}}}\n  made:").replace(
        ": trades\n    window", ": [trades, others]\n    window"
    )
    with pytest.raises(PipelineError) as raised:
        load_text(text, "file.yaml")
    (problem,) = raised.value.problems
    assert problem.expected == (
        "an input with event_time, as the window is a timeInterval (rule W16); the streams of a list have one if "
        "theirs are equal (rule R3)"
    )
