"""Time passes while the service runs: for windows, for what waits, and for nothing where nothing can fall due."""

from __future__ import annotations

import json
import time

import pytest

from sluice.batch.query_plan import Plan
from sluice.checkpoint.folder_store import FolderStore
from sluice.checkpoint.offset_log import PLANNED, batches_in
from sluice.config.load import load_text
from tests.service.events_as_records import record, replayed

PIPELINE = """
streams:
  in: {schema: {key: string, number: int64}}
  out: {}
operators:
  - name: seconds
    aggregate: in
    window: tumbling, time(1.0), partitioned
    partition_by: [key]
    output: {out: {key: key, all: Collect(number)}}
buckets: 2
"""

# ---- when the idle clock is needed -----------------------------------------------------------------------------------

OPERATORS = """
pipeline: p
streams:
  in: {{topic: in, schema: {{k: string, i: int64, t: timestamp}}, event_time: {event_time}}}
  other: {{topic: other, schema: {{k: string, i: int64, t: timestamp}}}}
  out: {{topic: out}}
operators:
  - {{name: o, {operator}}}
{more}
"""
PANES = "timeInterval, intervalDuration(2)"
COUNT = "output: {out: {n: Count()}}"
JOIN = "join: {{left: in, right: other}}, window_left: '{}', window_right: '{}', output: {{out: {{n: left.i}}}}"
CUSTOM = "custom: in, handler: tests.spec.handler_classes:Contents, window: '{}', output: [out]"


@pytest.mark.parametrize(
    ("operator", "more", "event_time", "needed"),
    [
        (f"aggregate: in, window: 'tumbling, time(2)', {COUNT}", "", "t", True),
        (f"aggregate: in, window: 'sliding, count(5), time(2)', {COUNT}", "", "t", True),
        (f"aggregate: in, window: 'tumbling, time(2)', {COUNT}", "clock: records", "t", False),
        (f"aggregate: in, window: 'tumbling, count(2)', {COUNT}", "", "t", False),
        (f"aggregate: in, window: 'sliding, time(2), count(1)', {COUNT}", "", "t", False),
        (f"aggregate: in, window: 'timeInterval, intervalDuration(2)', {COUNT}", "", "t", False),
        (
            f"aggregate: in, window: 'timeInterval, intervalDuration(2)', {COUNT}",
            "",
            "{attribute: t, idle_after: 3}",
            True,
        ),
        (f"aggregate: in, window: 'session, inactivityGap(2)', {COUNT}", "", "t", False),
        (f"aggregate: other, window: 'session, inactivityGap(2)', {COUNT}", "", "t", True),
        (f"aggregate: other, window: 'session, inactivityGap(2)', emit: updates, {COUNT}", "", "t", False),
        (f"aggregate: in, window: 'tumbling, count(2)', early: time(2), {COUNT}", "", "t", True),
        (f"aggregate: in, window: 'tumbling, count(3)', early: count(2), {COUNT}", "", "t", False),
        (f"aggregate: in, window: '{PANES}', early: count(2) or time(2), {COUNT}", "", "t", True),
        ("map: in, output: [out]", "", "t", False),
        ("map: in, output: [out]", "merge: timestamp", "t", True),
        ("sort: in, window: 'tumbling, time(2)', order_by: {i: asc}, output: [out]", "", "t", True),
        ("sort: in, window: 'sliding, count(2)', order_by: {i: asc}, output: [out]", "", "t", False),
        (CUSTOM.format("sliding, time(2), count(2)"), "", "t", True),
        (CUSTOM.format("sliding, count(2), count(2)"), "", "t", False),
        (JOIN.format("sliding, time(2)", "sliding, time(2)"), "", "t", False),
        (JOIN.format("sliding, time(2)", "sliding, count(2)") + ", algorithm: leftOuter", "", "t", True),
        (JOIN.format("sliding, time(2)", "sliding, count(2)") + ", algorithm: rightOuter", "", "t", False),
    ],
)
def test_a_query_has_an_idle_clock_if_something_can_fall_due(operator, more, event_time, needed):
    text = OPERATORS.format(operator=operator, more=more, event_time=event_time)
    plan = Plan(load_text(text, "p", environment=None), "q", "s", "c", 1, {"in": 1, "out": 1})
    assert plan.has_idle_clock is needed


# ---- real time -------------------------------------------------------------------------------------------------------


@pytest.mark.kafka
@pytest.mark.spark
def test_windows_fire_though_a_topic_partition_is_quiet(service):
    """Records come in one of two; each window is there soon after its second is over."""
    service.create("in", partitions=2)
    begin, sent, late = int(time.time() * 1000), [], []

    def some_more():
        if time.time() * 1000 - begin > 250 * len(sent):
            sent.append(len(sent))
            service.send("in", [record(row(0, "a", len(sent)), int(time.time() * 1000))])
        found = service.read("out")
        if found:
            late.append(time.time() - found[-1].timestamp()[1] / 1000)
        return len([message for message in found if message.value()]) >= 4

    service.run(service.pipeline(PIPELINE), until=some_more)
    assert min(late) < 4, "seconds from when it was due to when it was seen, by a cold service"


@pytest.mark.kafka
@pytest.mark.spark
def test_no_batch_runs_until_a_window_falls_due(service):
    """That of an hour does not. One batch more may run, as long as what the first one reported is not known."""
    service.create("in")
    pipeline = service.pipeline(PIPELINE.replace("time(1.0)", "time(3600.0)"))
    service.send("in", [record(row(0, "a", 1), int(time.time() * 1000))])
    begin = time.monotonic()
    service.run(pipeline, until=lambda: time.monotonic() - begin > 6)
    assert max(batches_in(FolderStore(service.folder / "checkpoint"), PLANNED)) <= 2


def row(at, key, number):
    return {"at": at, "tuple": {"key": key, "number": number}}


@pytest.mark.kafka
@pytest.mark.spark
def test_after_a_stop_come_the_windows_that_would_have_come_without_it(service):
    service.create("in")
    pipeline = service.pipeline(PIPELINE)
    begin = time.time()
    first = [row(0, "a", 1), row(0.2, "b", 2)]
    service.send("in", [record(event, int(begin * 1000)) for event in first])
    service.run(pipeline)
    stopped = time.time() - begin
    second = [
        row(round(stopped + after, 3), key, n) for n, (after, key) in enumerate([(0, "a"), (1.4, "b"), (2.8, "a")])
    ]
    time.sleep(3)
    service.send("in", [record(event, int(begin * 1000)) for event in second])
    end = second[-1]["at"] + 1.5
    expected = replayed(pipeline, [*first, *second, {"at": end}], int(begin * 1000))["out"]
    service.run(pipeline, until=lambda: len(service.read("out")) >= len(expected))
    assert service.outputs("out")[: len(expected)] == expected, "behind these are marks of windows without tuples"
    assert [json.loads(m.value())["all"] for m in service.read("out") if m.value()] == [[1], [2], [0], [1], [2]]
