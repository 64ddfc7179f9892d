"""The test kit: a pipeline that a test feeds, and the messages of its assertions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sluice.replayer.event_file import EventError
from sluice.testing import FINAL, WINDOW, PipelineTest, Watermark

FILE = """
pipeline: shop
streams:
  orders: {topic: orders, schema: {shop: string, amount: float64}}
  sums: {topic: sums}
  wrong: {topic: wrong}
dead_letters: wrong
operators:
  - name: sums
    aggregate: orders
    window: WINDOW
    partition_by: [shop]
    output: {sums: {shop: shop, amount: Sum(amount)}}
"""


def shop(window: str = "'tumbling, count(2), partitioned'", **options: object) -> PipelineTest:
    return PipelineTest(FILE.replace("WINDOW", window), **options)  # type: ignore[arg-type]


def order(name: str, amount: float) -> dict[str, object]:
    return {"shop": name, "amount": amount}


def test_outputs_are_there_after_each_tuple():
    test = shop().send("orders", order("a", 1.0))
    assert test.outputs("sums") == []
    test.send("orders", order("a", 2.0)).expect("sums", order("a", 3.0), WINDOW)
    assert (test.tuples("sums"), test.marks("sums")) == ([order("a", 3.0)], [WINDOW])


def test_expect_compares_what_came_since_the_last_expect():
    test = shop().send("orders", order("a", 1.0), order("a", 2.0)).expect("sums", order("a", 3.0), WINDOW)
    test.expect("sums").send("orders", order("b", 1.0), order("b", 1.0)).expect_tuples("sums", order("b", 2.0))
    test.expect_nothing()


def test_the_clock_fires_timers():
    test = shop("'tumbling, time(5m), partitioned'", start="2024-05-01T10:00:00Z").send("orders", order("a", 1.0))
    test.advance(299).expect("sums")
    test.advance("1s").expect("sums", order("a", 1.0), WINDOW)
    assert test.now == 1_714_557_900.0
    test.send("orders", order("a", 2.0)).move_to("2024-05-01T10:10:00Z").expect_tuples("sums", order("a", 2.0))


def test_the_clock_does_not_go_back():
    with pytest.raises(ValueError, match="cannot go back from 10 s to 5 s"):
        shop(start=10).move_to(5)


def test_a_duration_that_is_none():
    with pytest.raises(ValueError, match="expected seconds or a duration such as 5m, got soon"):
        shop().advance("soon")


def test_marks_close_windows_and_final_marks_end_inputs():
    file = FILE.replace("schema:", "marks_in: any, schema:").replace("WINDOW", "'tumbling, punct(), partitioned'")
    test = PipelineTest(file).send("orders", order("a", 1.0)).mark("orders")
    test.expect("sums", order("a", 1.0), WINDOW).final().expect("sums", FINAL)
    test.send("orders", order("a", 1.0)).mark("orders").expect_nothing()


def test_marks_in_one_topic_partition_close_its_own_tuples():
    file = FILE.replace("schema:", "marks_in: topic_partition, schema:")
    test = PipelineTest(file.replace("WINDOW", "'tumbling, punct(), partitioned'"), partitions=2)
    test.send("orders", order("a", 1.0), topic_partition=0).send("orders", order("b", 2.0), topic_partition=1)
    test.mark("orders", topic_partition=1).expect("sums", order("b", 2.0), WINDOW)


def test_watermarks_fire_panes_and_are_outputs():
    file = """
pipeline: panes
streams:
  orders: {topic: orders, schema: {amount: float64, at: timestamp}, event_time: at}
  sums: {topic: sums, watermarks: true, schema: {at: timestamp, amount: float64}, event_time: at}
operators:
  - name: sums
    aggregate: orders
    window: timeInterval, intervalDuration(60)
    output: {sums: {at: intervalStart(), amount: Sum(amount)}}
"""
    test = PipelineTest(file).send("orders", {"amount": 1.5, "at": 10}, {"amount": 2.0, "at": 20})
    found = test.watermark("orders", 60).outputs("sums")
    assert {"at": "1970-01-01T00:00:00Z", "amount": 3.5} in found
    assert any(isinstance(one, Watermark) for one in found)


def test_records_that_cannot_be_decoded_are_dead_letters():
    test = shop().record("orders", b'{"shop": "a"').record("orders", '{"shop": "a", "amount": 1}')
    test.expect_dead_letters("not JSON").expect_dead_letters()
    (letter,) = test.dead_letters
    assert letter["stream"] == "orders"
    test.record("orders", '{"shop": "a", "amount": 2}').expect_tuples("sums", order("a", 3.0))


def test_a_restart_changes_no_output():
    test = shop().send("orders", order("a", 1.0)).restart().send("orders", order("a", 2.0))
    test.expect("sums", order("a", 3.0), WINDOW)


def test_approximate_values():
    shop().send("orders", order("a", 0.1), order("a", 0.2)).expect_tuples("sums", order("a", pytest.approx(0.3)))


# ---- messages --------------------------------------------------------------------------------------------------------


def test_a_wrong_attribute_is_named():
    test = shop().send("orders", order("a", 1.0), order("a", 2.0))
    with pytest.raises(AssertionError) as raised:
        test.expect("sums", order("a", 4.0), WINDOW)
    assert str(raised.value) == (
        "sums at 0 s: expected 2 outputs, got 2 outputs\n"
        "  - {'shop': 'a', 'amount': 4.0}\n"
        "  + {'shop': 'a', 'amount': 3.0}\n"
        "      amount: expected 4.0, got 3.0\n"
        "    WINDOW"
    )


def test_missing_and_unexpected_outputs_and_the_dead_letters_that_may_be_the_cause():
    test = shop().record("orders", "[").send("orders", order("a", 1.0), order("a", 2.0))
    with pytest.raises(AssertionError) as raised:
        test.expect("sums", order("b", 1.0), order("a", 3.0), WINDOW)
    assert str(raised.value).splitlines()[:4] == [
        "sums at 0 s: expected 3 outputs, got 2 outputs",
        "  - {'shop': 'b', 'amount': 1.0}",
        "    {'shop': 'a', 'amount': 3.0}",
        "    WINDOW",
    ]
    assert "1 dead letters came meanwhile" in str(raised.value)
    assert "not JSON" in str(raised.value)


def test_dead_letters_that_were_not_expected():
    test = shop().record("orders", "[")
    with pytest.raises(AssertionError, match="not JSON"):
        test.expect_nothing()


def test_a_stream_that_is_unknown():
    with pytest.raises(KeyError, match="the streams are orders, sums, wrong"):
        shop().expect("sum")


def test_a_tuple_that_does_not_fit_names_the_attribute():
    with pytest.raises(EventError, match='attribute "amount" must be float64'):
        shop().send("orders", order("a", "much"))  # type: ignore[arg-type]


SENT = """
pipeline: sent
streams:
  orders: {topic: orders, schema: {n: int64, sent: timestamp}, record_timestamp: sent}
  copies: {topic: copies}
operators:
  - {name: copy, map: orders, output: {copies: {n: n, sent: sent}}}
"""


def test_a_timestamp_of_a_record_is_the_present_time_unless_the_test_gives_it():
    test = PipelineTest(SENT, start="2024-05-01T10:00:00Z").send("orders", {"n": 1}).advance(1.5)
    test.record("orders", '{"n": 2}').record("orders", '{"n": 3}', timestamp="2024-05-01T09:00:00Z")
    test.send("orders", {"n": 4, "sent": 0}).record("orders", '{"n": 5}', timestamp=0)
    assert [(one["n"], one["sent"]) for one in test.tuples("copies")] == [
        (1, "2024-05-01T10:00:00Z"), (2, "2024-05-01T10:00:01.5Z"), (3, "2024-05-01T09:00:00Z"),
        (4, "1970-01-01T00:00:00Z"), (5, "1970-01-01T00:00:00Z"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        (lambda test: test.move_to(1_767_225_600_000), "perhaps it has milliseconds"),
        (lambda test: test.move_to("2300-01-01T00:00:00Z"), "between the years 1677 and 2262, got '2300-01-01"),
        (lambda test: test.move_to(float("nan")), "between the years 1677 and 2262, got nan"),
        (lambda test: test.advance("100000d"), "beyond the year 2262"),
    ],
)
def test_a_time_that_no_clock_has_leaves_the_clock_as_it_is(step: Callable[[PipelineTest], object], problem: str):
    test = shop(start="2026-01-01T00:00:00Z")
    with pytest.raises(ValueError, match=problem):
        step(test)
    test.advance(1).send("orders", order("a", 1.0), order("a", 2.0)).expect("sums", order("a", 3.0), WINDOW)
    assert test.now == 1_767_225_601
