"""`sluice explain`: what the service makes of a pipeline."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

from sluice.cli import main
from sluice.config.load import load_text
from sluice.planning.explain_plan import Stage, plan

HEAD = """
pipeline: shop
streams:
  orders: {topic: orders, schema: {shop: string, customer: string, amount: float64, time: timestamp}}
  totals: {topic: totals}
  best: {topic: best}
"""
TOTALS = """
  - name: totals
    aggregate: orders
    window: tumbling, time(60.0), partitioned
    partition_by: [shop, customer]
    output: {totals: {shop: Last(shop), customer: Last(customer), amount: Sum(amount)}}
"""
BEST = """
  - name: best
    aggregate: totals
    window: sliding, count(10), count(1), partitioned
    partition_by: [customer]
    output: {best: {customer: Last(customer), most: Max(amount)}}
"""


def stages(operators: str, head: str = HEAD) -> tuple[Stage, ...]:
    return plan(load_text(head + "operators:" + operators, "shop.yaml"))


def test_operators_that_agree_on_a_key_are_one_stage_spread_by_it():
    (stage,) = stages(TOTALS + BEST)
    assert [step.name for step in stage.steps] == ["totals", "best"]
    assert stage.spread is None
    assert stage.together == (
        "orders would have to be distributed by two keys: totals by shop, customer and best by customer",
    )


def test_an_exchange_cuts_the_pipeline_into_stages_of_their_own():
    first, second = stages(TOTALS + BEST, HEAD.replace("topic: totals", "topic: totals, exchange: true"))
    assert (first.name, second.name) == ("shop", "shop.best")
    assert [s.name for s in first.writes] == [s.name for s in second.reads] == ["totals"]
    assert (first.spread, second.spread) == (("orders by shop, customer",), ("totals by customer",))
    assert (first.checkpoint, second.checkpoint) == ("checkpoints/shop/shop", "checkpoints/shop/shop.best")


@pytest.mark.parametrize(
    ("window", "fires", "waits"),
    [
        ("tumbling, count(3)", "with each 3 tuples", "for up to 2 more tuples"),
        ("tumbling, time(0.5)", "every 0.5 s of the clock", "up to 0.5 s"),
        ("tumbling, punct()", "with each window mark", "until the next mark"),
        ("sliding, time(60.0), time(5.0)", "every 5 s of the clock", "up to 5 s"),
        ("sliding, count(9), count(2)", "with every 2th tuple", "for the next firing"),
        (
            "sliding, count(9), count(2)\n    aggregate_incomplete_windows: false",
            "with every 2th tuple",
            "for the next firing; no output before the window was full for the first time",
        ),
        ("sliding, delta(amount, 2.5), count(1)", "with each tuple", None),
        (
            "tumbling, punct()\n    early: time(10) or count(1000)",
            (
                "with each window mark; early results without a mark after every 1,000 tuples or 10 s after a tuple "
                "that no result has had"
            ),
            "until the next mark",
        ),
    ],
)
def test_it_says_when_a_window_fires_and_what_a_tuple_waits_for(window: str, fires: str, waits: str | None):
    operator = f"""
  - name: one
    aggregate: orders
    window: {window}
    output: {{totals: {{n: Count()}}}}
"""
    (stage,) = stages(operator, HEAD.replace("  best: {topic: best}\n", ""))
    (step,) = stage.steps
    assert (step.windows, step.fires) == ((window.split("\n", maxsplit=1)[0],), fires)
    assert waits is None or step.waits == waits


@pytest.mark.parametrize(
    ("within", "keep", "fires", "waits", "state"),
    [
        ("time(10)", "first", "with the first tuple of each key and period",
         "none: the output is in the batch that read the tuple", r"\d+ bytes for each key"),
        ("time(10)", "last", "with the last tuple of each key and period, when that is over", "10 s",
         r"\d+ bytes for each key with one period and \d+ for its stored tuple"),
        ("eventTime(10)", "last", "with the last tuple of each key and period, when that is over",
         "10 s, and 2 s, by which watermarks lag",
         r"\d+ bytes for each key with one period and \d+ for its stored tuple"),
    ],
)  # fmt: skip
def test_a_dedup_is_explained(within: str, keep: str, fires: str, waits: str, state: str):
    head = HEAD.replace("topic: orders,", "topic: orders, event_time: {attribute: time, lag: 2},")
    operator = f"""
  - {{name: one, dedup: orders, by: [shop], within: {within}, keep: {keep}, output: [totals]}}
"""
    (stage,) = stages(operator, head.replace("  best: {topic: best}\n", ""))
    (step,) = stage.steps
    assert (step.kind, step.windows, step.fires, step.waits) == ("dedup", (f"{within} by shop",), fires, waits)
    assert re.fullmatch(state, step.state or "")


@pytest.mark.parametrize(
    ("eviction", "pattern"),
    [
        ("count(10)", r"\d+ bytes for each window partition"),  # which has room for ten from the first on
        ("count(20)", r"\d+ bytes for each window partition and \d+ for each of its 20 tuples: [\d,]+"),
        ("time(20)", r"\d+ bytes for each window partition and \d+ for each tuple in it"),
    ],
)
def test_the_state_is_given_in_bytes_for_each_window_partition(eviction, pattern):
    operator = BEST.replace("totals", "orders").replace("count(10)", eviction)
    (stage,) = stages(operator, HEAD.replace("  totals: {topic: totals}\n", ""))
    assert re.fullmatch(pattern, stage.steps[0].state)


@pytest.mark.parametrize(
    ("window", "function", "stored"),
    [
        ("timeInterval, intervalDuration(1h)", "Sum(amount)", r"and \d+ for each pane in it"),
        ("timeInterval, intervalDuration(1h)", "Collect(amount)",
         r", \d+ for each pane in it and \d+ for each tuple in it"),
        ("timeInterval, intervalDuration(15), creationPeriod(10)", "Sum(amount)",
         r"and \d+ for each slice of 5 s of its panes in it"),
        ("slidingTime, timeDifference(1h)", "Sum(amount)", r"and \d+ for each event time in it"),
        ("session, inactivityGap(5m)", "Sum(amount)", r"with one session"),
        ("session, inactivityGap(5m)", "Collect(amount)", r"with one session and \d+ for each tuple in it"),
    ],
    ids=["panes", "listed in panes", "panes that overlap", "slidingTime", "session", "listed in sessions"],
)  # fmt: skip
def test_the_state_over_event_time_is_given_for_each_pane_that_tuples_share(window: str, function: str, stored: str):
    partitioned = ", partitioned" if window.startswith("timeInterval") else ""
    operator = f"""
  - {{name: totals, aggregate: orders, window: "{window}{partitioned}", partition_by: [shop],
     output: {{totals: {{x: {function}}}}}}}
"""
    head = HEAD.replace("topic: orders,", "topic: orders, event_time: {attribute: time, lag: 2},")
    (stage,) = stages(operator, head.replace("  best: {topic: best}\n", ""))
    assert re.fullmatch(rf"[\d,]+ bytes for each window partition ?{stored}", stage.steps[0].state or "")


JOIN = """
pipeline: joined
streams:
  left: {{topic: left, schema: {{k: string, t: timestamp}}, event_time: t}}
  right: {{topic: right, schema: {{k: string, t: timestamp}}, event_time: t}}
  out: {{topic: out}}
operators:
  - {{name: j, join: {{left: left, right: right}}, window: "{window}", equality_left: [k], equality_right: [k],
     algorithm: leftOuter, output: {{out: {{k: left.k}}}}}}
"""


@pytest.mark.parametrize(
    ("window", "shown", "fires", "waits"),
    [
        (
            "interval, before(-1), after(1m), grace(2)", "interval, before(-1.0), after(60.0), grace(2.0)",
            "with each tuple that finds partners in its interval",
            "up to 60 s, and the grace of 2 s, and for the watermark that comes with the stream",
        ),
        (
            "asOf, maximumAge(1h)", "asOf, maximumAge(3600.0)",
            "with a watermark, for each left tuple that is before the watermark less the grace",
            "the grace of 0 s, and for the watermark that comes with the stream",
        ),
    ],
)  # fmt: skip
def test_a_join_over_event_time(window: str, shown: str, fires: str, waits: str):
    (stage,) = plan(load_text(JOIN.format(window=window), "joined.yaml", environment=None))
    (step,) = stage.steps
    assert step.windows == (f"{shown} where k of left = k of right",)
    assert step.fires == fires
    assert step.waits.endswith(waits)
    assert stage.spread == ("left by k", "right by k")


@pytest.mark.parametrize(
    ("left", "right", "window", "ages"),
    [
        (
            "lag: 5",
            "lag: 0.5",
            "interval, before(0), after(15m)",
            ("5 s before the newest one", "0.5 s before the newest one"),
        ),
        (
            "lag: 5",
            "lag: 5",
            "interval, before(0), after(9), grace(2)",
            ("7 s before the newest one", "7 s before the newest one"),
        ),
        ("resolution: null", "lag: 5", "asOf", ("0 s before the watermark", "5 s before the newest one")),
    ],
)
def test_a_join_over_event_time_says_how_old_a_tuple_may_be(left: str, right: str, window: str, ages: tuple[str, str]):
    text = JOIN.format(window=window).replace("event_time: t}", f"event_time: {{attribute: t, {left}}}}}", 1)
    text = text.replace("event_time: t}", f"event_time: {{attribute: t, {right}}}}}", 1)
    (stage,) = plan(load_text(text, "joined.yaml", environment=None))
    (step,) = stage.steps
    age = f"{ages[0]} of left and {ages[1]} of right"
    assert step.late == f"a tuple more than {age} can be late: a dead letter, even if its partner waits"


MINUTES = """
  - name: minutes
    aggregate: {read}
    window: "{window}"
    partition_by: [shop]
    output: {{totals: {{n: Count()}}}}
"""
TIMED = HEAD.replace("topic: orders,", "topic: orders, event_time: {attribute: time, lag: 2},").replace(
    "  best: {topic: best}\n", ""
)
PANES = "timeInterval, intervalDuration(60), partitioned"


def test_computed_watermarks_are_in_all_buckets():
    """ET2."""
    (stage,) = stages(MINUTES.format(read="orders", window=PANES), TIMED)
    assert (stage.spread, stage.together, stage.instead) == (("orders by shop",), (), ())
    (stage,) = stages(MINUTES.format(read="orders", window="slidingTime, timeDifference(60), grace(1)"), TIMED)
    assert (stage.spread, stage.together, stage.instead) == (("orders by shop",), (), ())


TIMES_OF_OTHERS = {
    "the stream of an operator": (
        TIMED + "  made: {event_time: {attribute: time, lag: 2}}\n", "\n  - {name: pass, map: orders, output: [made]}",
        "made", PANES,
        "minutes: the watermarks of made are computed from the tuples of all keys, which an operator writes (ET3)",
        "send made through its topic, with `exchange: true`",
    ),
    "sliding times behind an operator": (
        TIMED + "  made: {}\n", "\n  - {name: pass, map: orders, output: [made]}", "made",
        "slidingTime, timeDifference(60)",
        "minutes: the tuples of all keys of made, which an operator writes, move its stream time (T1, ET3)",
        "send made through its topic, with `exchange: true`",
    ),
    "no silence": (
        TIMED.replace("lag: 2", "lag: 2, idle_after: 0"), "", "orders", PANES,
        "minutes: with `idle_after: 0` each tuple of orders decides which topic partition is idle (ET3)",
        "give orders an idle_after above 0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TIMES_OF_OTHERS)
def test_event_times_that_other_buckets_have_not(case: str):
    head, before, read, window, why, instead = TIMES_OF_OTHERS[case]
    (stage,) = stages(before + MINUTES.format(read=read, window=window), head)
    assert (stage.spread, stage.together, stage.instead) == (None, (why,), (instead,))


def test_what_would_not_help_is_not_named():
    advancing = TIMED.replace("lag: 2", "lag: 2, idle_after: 5, advance: true")
    (stage,) = stages(MINUTES.format(read="orders", window="slidingTime, timeDifference(60), grace(1)"), advancing)
    assert (len(stage.together), stage.instead) == (1, ())
    whole = MINUTES.format(read="orders", window=PANES).replace("partition_by: [shop]", "").replace(", partitioned", "")
    (stage,) = stages(whole, f"buckets: 1\n{TIMED}")
    assert (len(stage.together), stage.instead) == (1, ())


@pytest.mark.parametrize("example", ["flights", "moving_average", "payments", "turnover", "in_order"])
def test_the_examples_are_explained_and_drawn(example: str, tmp_path: Path):
    picture = tmp_path / "plan.svg"
    result = CliRunner().invoke(main, ["explain", f"examples/{example}.yaml", "--svg", str(picture)])
    assert result.exit_code == 0, result.output
    assert "stage 1: " in result.output
    assert ET.fromstring(picture.read_text()).tag.endswith("svg")  # noqa: S314 - our own


TABLE_FILE = """
pipeline: enrich
streams:
  orders: {topic: orders, schema: {order: string, customer: string}}
  customers: {topic: customers, schema: {customer: string, name: string}, key: {attributes: [customer]}, table: true}
  enriched: {topic: enriched}
operators:
  - name: enrich
    join: {left: orders, right: customers}
    equality_left: [customer]
    equality_right: [customer]
    output: {enriched: {order: order, name: name}}
"""


def test_a_join_with_a_table_says_what_a_tuple_meets_and_what_is_loaded_first(tmp_path: Path):
    file = tmp_path / "enrich.yaml"
    file.write_text(TABLE_FILE)
    lines = [line.strip() for line in CliRunner().invoke(main, ["explain", str(file)]).output.splitlines()]
    assert "customers: topic customers, json, a table: the first batch loads it and reads nothing else" in lines
    window = (
        "window    the table customers: the newest row of each key where customer of orders = customer of customers"
    )
    assert window in lines
    assert "fires     with each tuple that finds a row, of orders" in lines
    assert any(line.endswith("tuples are spread: orders by customer") for line in lines)
    assert "tuples are spread: customers by customer" in lines


def test_operators_that_read_one_input_with_different_keys_say_why_they_are_apart(tmp_path: Path):
    file = tmp_path / "shop.yaml"
    file.write_text(f"{HEAD}operators:{TOTALS}{BEST}".replace("aggregate: totals", "aggregate: orders"))
    lines = CliRunner().invoke(main, ["explain", str(file)]).output.splitlines()
    assert lines[0] == "pipeline shop: 2 stages, one query each"
    reason = "orders would have to be distributed by two keys: totals by shop, customer and best by customer"
    assert lines.count(f"  apart       since {reason}") == 2
    assert "  buckets     tuples are spread: orders by shop, customer" in lines
    assert "  buckets     tuples are spread: orders by customer" in lines


def test_an_input_says_which_attribute_is_the_timestamp_of_its_records(tmp_path: Path):
    file = tmp_path / "shop.yaml"
    head = HEAD.replace("topic: orders,", "topic: orders, record_timestamp: time,").replace(
        "  best: {topic: best}\n", ""
    )
    file.write_text(f"{head}operators:{TOTALS}")
    lines = CliRunner().invoke(main, ["explain", str(file)]).output.splitlines()
    assert "  reads       orders: topic orders, json, time is the timestamp of the record" in lines


@pytest.mark.parametrize(
    ("window", "late"),
    [
        ("timeInterval, intervalDuration(60), partitioned", "2 s before the newest one of orders is late"),
        ("timeInterval, intervalDuration(60), discardAge(30), partitioned", "32 s before the newest one of orders is"),
        ("session, inactivityGap(300), grace(5)", "307 s before the newest one of orders can be late"),
        ("slidingTime, timeDifference(60), grace(1)", "1 s before the newest one of orders can be late"),
    ],
)
def test_the_plan_says_from_which_age_on_a_tuple_is_late(window, late):
    (stage,) = stages(MINUTES.format(read="orders", window=window), TIMED)
    assert stage.steps[0].late.startswith(f"a tuple more than {late}")


def test_no_tuple_of_a_window_over_the_clock_is_late():
    (stage,) = stages(MINUTES.format(read="orders", window="tumbling, count(5), partitioned"), TIMED)
    assert stage.steps[0].late == ""


@pytest.mark.parametrize(
    ("operators", "instead"),
    [
        (
            MINUTES.format(read="orders", window="tumbling, count(5)").replace("    partition_by: [shop]\n", ""),
            "give minutes partition_by, and `partitioned` in its clause, if its results may be those of each key",
        ),
        (
            MINUTES.format(read="orders", window="sliding, count(5), partitioned").replace("Count()", "CountAll()"),
            "let minutes count the tuples of the own partition: Count(), or group_by",
        ),
    ],
)
def test_the_plan_says_what_to_change(operators, instead):
    (stage,) = stages(operators, HEAD.replace("  best: {topic: best}\n", ""))
    assert stage.instead == (instead,)
