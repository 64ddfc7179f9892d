"""Why windows do not fire: the topic partition, the mark or the time that is missing."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.config.load import load_text
from sluice.kafka.batch_report import Entry, Report
from sluice.model.spec import Pipeline
from sluice.model.windows.time_interval_window import TimeInterval
from sluice.page.history import History, Lag, Rates
from sluice.page.pipeline_pages import PipelinePage, verdicts
from sluice.page.stage_inspections import StageInspection, StreamProgress, TopicPartition
from sluice.page.why_not_firing import StageFacts, answers, next_end
from sluice.time_units import SECOND
from tests.unit.page.page_without_service import at

FILE = """
pipeline: shop
kafka: {{bootstrap.servers: "localhost:9092"}}
{settings}
streams:
  orders:
    topic: orders
    schema: {{shop: string, amount: float64, at: timestamp}}
    {stream}
  out: {{topic: out}}
operators:
  - name: one
    aggregate: orders
    window: {window}
    output: {{out: {{n: Count()}}}}
"""
PANES = "timeInterval, intervalDuration(60)"
EVENT_TIME = "event_time: {attribute: at, lag: 5}"
TWO = [Lag("orders", 0, 10, 10), Lag("orders", 1, 10, 10)]


#: tuples came in, and some went out
BUSY = Rates({"orders": {"tuple": 5.0}}, operators={"one": {"in": 5.0, "out": 1.0}})


def sentences(
    window: str, stream: str = "", settings: str = "", lags: Any = TWO, rates: Rates = BUSY, **answer: Any
) -> str:
    """What holds the window back. `answer` is the inspection of the only bucket."""
    text = FILE.format(window=window, stream=stream, settings=settings)
    pipeline = load_text(text, "shop.yaml", environment=None)
    looked = StageInspection([{"bucket": 0, "version": 1, "clock": at(0), "due": None} | answer])
    facts = StageFacts(
        pipeline, at(10), at(0), at(10), looked.streams, looked.clock, looked.due, looked.finals, looked.waiting,
        rates=rates, lags=lags,
    )  # fmt: skip
    return " ".join(one.text for one in answers(pipeline.operators[0], facts))


def streams(watermark: float | None, *partitions: tuple[float | None, bool]) -> dict[str, Any]:
    """The watermark of orders, and those of its topic partitions with whether each is idle; in seconds."""
    found = [
        {"watermark": None if time is None else at(time), "last_item": at(time or 0), "idle": idle}
        for time, idle in partitions
    ]
    return {"orders": {"watermark": None if watermark is None else at(watermark), "topic_partitions": found}}


def test_the_slowest_topic_partition_is_named_with_what_is_missing():
    found = sentences(PANES, EVENT_TIME, streams=streams(40, (100, False), (40, False)))
    assert found == (
        "The watermark of orders is 2024-05-01 10:00:40. The pane that ends next, at 2024-05-01 10:01:00, lacks 20 s "
        "of event time. Topic partition 1 of orders holds it back: its watermark is 2024-05-01 10:00:40, 1 min "
        "behind the furthest one; its last record came at 2024-05-01 10:00:40 of the operator clock. With "
        "`idle_after` the stream would not wait for silent topic partitions."
    )


def test_a_silent_topic_partition_is_named_with_the_remedy():
    found = sentences(PANES, EVENT_TIME, streams=streams(None, (100, False), (None, False)))
    assert found == (
        "orders has no watermark yet, so nothing that waits for its event time can come out. No watermark came from "
        "topic partition 1 of orders yet. With `idle_after` the stream would not wait for silent topic partitions."
    )


def test_idle_topic_partitions_are_not_waited_for():
    found = sentences(PANES, EVENT_TIME, streams=streams(100, (100, False), (40, True)))
    assert "holds it back" not in found
    assert "Topic partition 1 of orders is idle and not waited for." in found


def test_one_topic_partition_holds_nothing_back():
    found = sentences(PANES, EVENT_TIME, streams=streams(100, (100, False)))
    assert found.endswith("at 2024-05-01 10:02:00, lacks 20 s of event time.")


def test_a_timer_says_when_the_clock_causes_the_next_output():
    found = sentences("tumbling, time(60)", clock=at(0), due=at(60))
    assert found == (
        "The operator clock is 2024-05-01 10:00:00; the clock alone causes the next output at 2024-05-01 10:01:00, "
        "which is in 50 s."
    )


def test_the_clock_of_records_needs_a_record():
    found = sentences("tumbling, time(60)", settings="clock: records", clock=at(0), due=at(60))
    assert found.endswith("a record with a timestamp of 2024-05-01 10:01:00 or later is missing.")


def test_a_clock_that_has_not_started():
    assert "it starts with the first record" in sentences("tumbling, time(60)", clock=None)


def test_aligned_marks_name_the_topic_partitions_that_are_missing():
    found = sentences("tumbling, punct()", "marks_in: aligned", waiting={"orders": {"0": 2}})
    assert "topic partition 0 sent 2; the window is flushed when a mark of topic partition 1 comes." in found


@pytest.mark.parametrize(("marks", "expected"), [(0.0, True), (1.0, False)])
def test_a_window_of_marks_without_marks(marks: float, *, expected: bool):
    rates = BUSY._replace(read={"orders": {"tuple": 5.0, "window": marks}})
    found = sentences("tumbling, punct()", "marks_in: any", rates=rates)
    assert ("No window mark was read from orders lately" in found) == expected


def test_unread_records_come_first():
    found = sentences("tumbling, count(3)", lags=[Lag("orders", 0, 10, 30), Lag("orders", 1, 5, 5)])
    assert found == "20 records of orders are not read yet (topic partition 0)."


def test_an_input_that_has_ended():
    found = sentences("tumbling, count(3)", finals={"orders": [0, 1]})
    assert found == "orders has ended: all its topic partitions sent their final mark. No window fires any more."
    assert "Topic partition 1 of orders ended" in sentences("tumbling, count(3)", finals={"orders": [1]})


def test_a_count_window_waits_for_tuples_only():
    assert sentences("tumbling, count(3)") == "Its windows wait for tuples only."
    assert sentences("tumbling, count(3)", rates=Rates()) == (
        "No record of orders came within the last minute. Its windows wait for tuples only."
    )


@pytest.mark.parametrize(
    ("duration", "period", "offset", "watermark", "end"),
    [
        (60, 60, 0, 0, 60), (60, 60, 0, 59, 60), (60, 60, 0, 60, 120), (60, 60, 10, 60, 70),
        (60, 20, 0, 61, 80), (10, 60, 0, 10, 70), (10, 60, 0, 9, 10), (60, 60, 0, -1, 0), (60, 60, 0, -61, -60),
    ],
)  # fmt: skip
def test_the_next_end_of_a_pane(duration: int, period: int, offset: int, watermark: int, end: int):
    assert next_end(TimeInterval(duration, period, 0, offset), watermark) == end


@pytest.mark.parametrize(
    ("window", "end"),
    [
        ("timeInterval, intervalDuration(month)", "2024-06-01 00:00:00"),
        ("timeInterval, intervalDuration(quarter)", "2024-07-01 00:00:00"),
        ("timeInterval, intervalDuration(year)", "2025-01-01 00:00:00"),
        ("timeInterval, intervalDuration(86400)\n    align: {zone: Europe/Berlin}", "2024-05-01 22:00:00"),
        ("timeInterval, intervalDuration(604800)\n    align: {on: monday}", "2024-05-06 00:00:00"),
    ],
    ids=["a month", "a quarter", "a year", "a day in Berlin", "a week"],
)
def test_a_pane_of_the_calendar_ends_with_its_period(window: str, end: str):
    """The watermark is 2024-05-01 10:00:40."""
    found = sentences(window, EVENT_TIME, streams=streams(40, (40, False)))
    assert f"The pane that ends next, at {end}, lacks" in found


# ---- verdicts: every kind of operator ------------------------------------------------------------------------------

#: two streams with event time, three topic partitions each, and a table
STREAMS = """
pipeline: desk
kafka: {{bootstrap.servers: "localhost:9092"}}
{settings}
streams:
  trades: {{topic: trades, schema: {{sym: string, price: float64, t: timestamp}}, event_time: {{attribute: t, lag: 1}}}}
  quotes: {{topic: quotes, schema: {{sym: string, i: int64, t: timestamp}}, event_time: {{attribute: t, {idle}}}}}
  bids: {{topic: bids, schema: {{sym: string, i: int64, t: timestamp}}, event_time: {{attribute: t, lag: 1}}}}
  names: {{topic: names, schema: {{sym: string, name: string}}, key: {{attributes: [sym], format: text}}, table: true}}
  marked: {{topic: marked, schema: {{sym: string, price: float64}}, marks_in: aligned}}
  between: {{event_time: t}}
  out: {{topic: out}}
operators:
{operators}
"""
ASOF = """
  - {name: rate, join: {left: trades, right: quotes}, window: asOf, equality_left: [sym], equality_right: [sym],
     output: {out: {sym: left.sym, bid: right.i}}}
"""
SILENT = "topic partition 1 of quotes has been silent for 3 min; add `idle_after`"


def desk(operators: str, idle: str = "lag: 1", settings: str = "") -> Pipeline:
    text = STREAMS.format(operators=operators, idle=idle, settings=settings)
    if "merge:" in settings:  # a table excludes it
        text = "".join(line for line in text.splitlines(keepends=True) if "table:" not in line)
    return load_text(text, "desk.yaml", environment=None)


def over_quotes(clause: str) -> str:
    return f"  - {{name: rate, {clause}}}"


def progress(**watermarks: tuple[float | None, ...]) -> dict[str, StreamProgress]:
    """By stream: the watermark of each topic partition, whose last item came at the same second."""
    return {
        name: StreamProgress(
            None if None in times else at(min(time for time in times if time is not None)),
            {n: TopicPartition(None if t is None else at(t), at(t or 0)) for n, t in enumerate(times)},
        )
        for name, times in watermarks.items()
    }


def verdict(pipeline: Pipeline, *, held: int = 90, now: float = 180, **facts: Any) -> str:
    """The verdict about the operator `rate`, which holds so many tuples; empty if there is none."""
    sizes = {operator.name: (1, held) for operator in pipeline.operators}
    known = {"streams": progress(trades=(180, 180, 180), quotes=(180, 0, 180)), "sizes": sizes}
    known |= {"clock": at(now), "reported": at(now)} | facts
    found = answers(pipeline.operators[-1], StageFacts(pipeline, at(now), at(0), **known))
    assert all(one.text for one in found)
    return "".join(one.text.removeprefix("`rate` cannot fire: ") for one in verdicts({"rate": found}))


EQUAL = "equality_left: [sym], equality_right: [sym], output: {out: {sym: left.sym}}"
FIVE = "sliding, count(5)"
#: what waits for a watermark, as operators over quotes
WAITING = {
    "panes": 'aggregate: quotes, window: "timeInterval, intervalDuration(10)", output: {out: {n: Count()}}',
    "kip": 'aggregate: quotes, window: "slidingTime, timeDifference(10)", output: {out: {n: Count()}}',
    "session": 'aggregate: quotes, window: "session, inactivityGap(10)", output: {out: {n: Count()}}',
    "sort": 'sort: quotes, window: "timeInterval, intervalDuration(10)", order_by: {t: asc}, output: [out]',
    "dedup": "dedup: quotes, by: [sym], within: eventTime(10), keep: last, output: [out]",
    "handler": 'custom: quotes, window: "timeInterval, intervalDuration(10)", output: [out], '
    "handler: 'tests.spec.handler_classes:Panes'",
    "outer interval join": 'join: {left: quotes, right: trades}, window: "interval, before(1), after(1)", '
    f"algorithm: leftOuter, {EQUAL}",
}


@pytest.mark.parametrize("kind", WAITING)
def test_a_silent_topic_partition_is_the_verdict_about_every_kind_that_waits_for_a_watermark(kind: str):
    assert verdict(desk(over_quotes(WAITING[kind]))) == SILENT


def test_a_silent_topic_partition_is_the_verdict_about_an_as_of_join():
    assert verdict(desk(ASOF)) == SILENT


def test_behind_a_map_the_input_is_named():
    through = """
  - {name: cents, map: quotes, output: {between: {sym: sym, t: t, i: i * 100}}}
  - {name: rate, aggregate: between, window: "timeInterval, intervalDuration(10)", output: {out: {n: Count()}}}
"""
    assert verdict(desk(through)) == SILENT


def test_behind_a_union_the_input_is_named():
    union = over_quotes('aggregate: [quotes, bids], window: "timeInterval, intervalDuration(10)", '
                        "output: {out: {n: Count()}}")  # fmt: skip
    assert verdict(desk(union), streams=progress(quotes=(180, 0), bids=(180,))) == SILENT


@pytest.mark.parametrize(
    ("case", "given", "expected"),
    [
        ("nothing is held", {"held": 0}, ""),
        ("the silence is short", {"now": 59}, ""),
        ("it is not read yet", {"lags": [Lag("quotes", 1, 5, 9)]}, ""),
        ("another one is not read yet", {"lags": [Lag("quotes", 0, 5, 9)]}, SILENT),
        ("no topic partition is behind", {"streams": progress(trades=(5, 5), quotes=(5, 5))}, ""),
        (
            "a topic partition never sent anything",
            {"streams": progress(trades=(180,), quotes=(180, None, None))},
            "topic partitions 1, 2 of quotes have been silent for 3 min; add `idle_after`",
        ),
        (
            "a whole stream is silent", {"streams": progress(trades=(180,), quotes=(0,))},
            "topic partition 0 of quotes has been silent for 3 min; add `idle_after`",
        ),
        (
            "no tuple of a stream ever came", {"streams": progress(trades=(180,))},
            "no tuple has come from quotes for 3 min",
        ),
        (
            "the slower side counts", {"streams": progress(trades=(60, 180), quotes=(0, 180))},
            "topic partition 0 of quotes has been silent for 3 min; add `idle_after`",
        ),
    ],
)  # fmt: skip
def test_verdicts_about_an_as_of_join(case: str, given: dict[str, Any], expected: str):
    assert verdict(desk(ASOF), **given) == expected, case


def test_a_topic_partition_that_becomes_idle_is_no_verdict():
    assert verdict(desk(ASOF, "lag: 1, idle_after: 600")) == ""


def test_a_stream_that_is_idle_as_a_whole_holds_a_join_back():
    idle = StreamProgress(at(0), {0: TopicPartition(at(0), at(0), idle=True)})
    streams = progress(trades=(180,)) | {"quotes": idle}
    expected = "all of quotes is idle and has been silent for 3 min; add `advance: true` to its event time"
    assert verdict(desk(ASOF, "lag: 1, idle_after: 10"), streams=streams) == expected
    assert verdict(desk(ASOF, "lag: 1, idle_after: 10, advance: true"), streams=streams) == ""


def test_a_stream_without_lag_needs_marks():
    found = verdict(desk(ASOF, "minimum_gap: 0"), streams=progress(trades=(180,)))
    remedy = "declare a `lag`, or let its producer send watermark marks"
    assert found == f"no watermark mark has come from quotes for 3 min; {remedy}"


def test_while_old_records_are_read_the_silence_is_that_of_the_clock_and_of_the_time_since_a_batch():
    far = 10**6
    assert verdict(desk(ASOF), now=far, clock=at(30)) == ""
    assert verdict(desk(ASOF), now=far, clock=at(30), reported=at(far - 150)) == SILENT


def test_with_the_clock_of_records_the_silence_is_that_of_the_clock():
    records = desk(ASOF, settings="clock: records")
    assert verdict(records, now=10**6, clock=at(30)) == ""
    assert verdict(records, now=10**6, clock=at(180)) == SILENT


@pytest.mark.parametrize(
    ("clause", "rates", "expected"),
    [
        ("map: quotes, where: i > 0, output: {out: {sym: sym}}", {"in": 5.0}, "`where` let none of them through"),
        ("map: quotes, output: {out: {sym: sym}}", {"in": 5.0, "out": 5.0}, "It passes each tuple on at once."),
        ("map: quotes, output: {out: {p: previous(i)}}", {"in": 5.0}, "its condition held for no tuple"),
        ("barrier: [quotes, trades], output: {out: {i: quotes.i}}", {"in": 5.0}, "no key had a tuple of each input"),
        ("barrier: [quotes, trades], output: {out: {i: quotes.i}}", {}, "when the last of the next tuples"),
        ("delay: quotes, by: 9s, output: [out]", {"in": 5.0}, "within the last minute all its tuples wait"),
        ("dedup: quotes, by: [sym], within: time(10), output: [out]", {"in": 5.0}, "were duplicates"),
        (
            f"join: {{left: trades, right: names}}, {EQUAL}",
            {"in": 5.0}, "No tuple of the last minute found a row of names that matches.",
        ),
        (
            f"join: {{left: trades, right: quotes}}, window_left: '{FIVE}', window_right: '{FIVE}', {EQUAL}",
            {"in": 5.0}, "No tuple of the last minute found a partner that matches.",
        ),
        (
            f"join: {{left: trades, right: quotes}}, window: 'interval, before(1), after(1)', {EQUAL}",
            {"in": 5.0}, "No tuple of the last minute found a partner that matches.",
        ),
        (
            'aggregate: quotes, window: "sliding, count(3), count(1)", output: {out: {n: Count()}}',
            {"in": 5.0, "out": 1.0}, "Its windows wait for tuples only.",
        ),
        (
            'aggregate: quotes, window: "session, inactivityGap(10)", output: {out: {n: Count()}}',
            {"in": 5.0, "out": 1.0}, "The watermark of quotes is 2024-05-01 10:00:00.",
        ),
    ],
)  # fmt: skip
def test_every_kind_answers(clause: str, rates: dict[str, float], expected: str):
    pipeline = desk(over_quotes(clause))
    read = {name: {"tuple": 5.0} for name in ("trades", "quotes", "names")}
    facts = StageFacts(
        pipeline, at(180), at(0), at(180), progress(trades=(180,), quotes=(180, 0)), at(180),
        rates=Rates(read, operators={"rate": rates}),
    )  # fmt: skip
    assert expected in " ".join(one.text for one in answers(pipeline.operators[0], facts))


def test_records_that_are_all_dead_letters_are_a_verdict():
    rates = Rates({"quotes": {"tuple": 0.0}}, dead_letters={"quotes": {"not JSON": 2.0, "late": 0.0}})
    found = verdict(desk(over_quotes(WAITING["panes"])), held=0, rates=rates)
    assert found == "every record of quotes becomes a dead letter (not JSON)"


def test_records_that_wait_for_a_topic_partition_to_be_merged_are_a_verdict():
    merged = desk(over_quotes(WAITING["panes"]), settings="clock: records\nmerge: timestamp\nbuckets: 1")
    found = verdict(merged, held=0, rates=Rates({"quotes": {"tuple": 5.0}}))
    assert found == "records of quotes wait for a silent topic partition (`merge: timestamp` with `clock: records`)"


@pytest.mark.parametrize(
    ("seconds", "expected"), [(59.0, ""), (180.0, "no mark of topic partition 1 of marked has come for 3 min")]
)
def test_aligned_marks_that_wait_long_are_a_verdict(seconds: float, expected: str):
    clause = over_quotes('aggregate: marked, window: "tumbling, punct()", output: {out: {n: Count()}}')
    lags = [Lag("marked", 0, 1, 1), Lag("marked", 1, 1, 1)]
    waiting = {"waiting": {"marked": {"0": 2}}, "waiting_s": {"marked": seconds}}
    assert verdict(desk(clause), lags=lags, **waiting) == expected


def test_a_later_stage_names_the_operator_of_the_earlier_stage():
    staged = """
  - {name: per_sym, aggregate: quotes, window: "timeInterval, intervalDuration(10), partitioned", partition_by: [sym],
     output: {between: {sym: sym, n: Count(), t: intervalStart()}}}
  - {name: per_count, aggregate: between, window: "tumbling, count(10), partitioned", partition_by: [n],
     output: {out: {n: n, many: Count()}}}
"""
    pipeline = load_text(
        STREAMS.format(operators=staged, idle="lag: 1", settings="").replace(
            "between: {event_time: t}", "between: {topic: between, exchange: true, event_time: t}"
        ),
        "desk.yaml", environment=None,
    )  # fmt: skip
    first = History(lambda: at(180) / SECOND)
    report = Report(
        slowest={"quotes": [[1, at(0), at(0), False], [0, at(180), at(180), False]]}, watermarks={"quotes": at(0)},
        clock=at(180), operators={"per_sym": {"tuples": 90, "partitions": 1}},
    )  # fmt: skip
    first.batch_written(Entry("desk", "id", 1, at(180) // 1_000_000, 0, report))
    page = PipelinePage(pipeline, histories=[first], now=lambda: at(180) / SECOND)
    assert [one.text for one in page.held_back()] == [
        f"`per_sym` cannot fire: {SILENT}",
        f"`per_count` cannot fire: between comes from `per_sym`, which cannot fire: {SILENT}",
    ]
