"""The session clause in a pipeline file, and what the service makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.config.load import load_text
from sluice.model.errors import PipelineError
from sluice.model.expressions import Attribute, Call
from sluice.model.spec import Aggregate, Pipeline
from sluice.model.spreading import layout
from sluice.model.types import FLOAT64, INT64, TIMESTAMP
from sluice.model.windows.session_window import Session
from sluice.planning.explain_plan import plan

SECOND = 10**9
FILE = """
pipeline: p
streams:
  visits:
    topic: visits
    schema: {{user: string, page: string, ts: timestamp, wait: float64, n: int64}}
    {event_time}
  out: {{topic: out}}
operators:
  - name: sessions
    {kind}: visits
    window: {window}
    partition_by: [user]
    {more}
    output: {{out: {{{output}}}}}
"""
TIMED = "event_time: {attribute: ts, lag: 2.0}"


def loaded(window: str, event_time: str = TIMED, more: str = "", output: str = "n: Count()") -> Pipeline:
    text = FILE.format(window=window, event_time=event_time, more=more, output=output, kind="aggregate")
    return load_text(text, "file.yaml", environment=None)


def window(text: str, **parts: str) -> Session:
    (operator,) = loaded(text, **parts).operators
    assert isinstance(operator, Aggregate)
    assert isinstance(operator.window, Session)
    return operator.window


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("session, inactivityGap(30.0)", Session(30 * SECOND)),
        (
            "grace(0.5), inactivityGap(30), session, maximumDuration(3600)",
            Session(30 * SECOND, 3600 * SECOND, SECOND // 2),
        ),
        ("session, inactivityGap(wait)", Session(Attribute("wait", FLOAT64))),
        ("session, inactivityGap(n)", Session(Call("float64", (Attribute("n", INT64),), FLOAT64))),
    ],
)
def test_clauses(text: str, expected: Session):
    assert window(text) == expected
    assert window(expected.clause()) == expected


def test_an_input_without_event_time_has_sessions_of_the_clock():
    assert window("session, inactivityGap(1)", event_time="") == Session(SECOND, clock=True)
    assert window("session, inactivityGap(1)", event_time="", more="emit: updates").emit == "updates"


@pytest.mark.parametrize(
    ("event_time", "kind"), [(TIMED, TIMESTAMP), ("", FLOAT64), ("event_time: wait", FLOAT64), ("event_time: n", INT64)]
)
def test_the_times_of_a_session_have_the_type_of_the_event_time(event_time: str, kind: Any):
    pipeline = loaded("session, inactivityGap(1)", event_time, output="from: sessionStart(), to: sessionEnd()")
    assert dict(pipeline.operators[0].outputs[0].attributes)["from"].type == kind
    assert dict(pipeline.operators[0].outputs[0].attributes)["to"].type == kind


EXAMPLES = "such as 30, 30s, 5m, 1h or 1d"
WRONG = {
    "session": ({}, "inactivityGap(seconds) in a session window (rule W12)"),
    "session, inactivityGap(0)": (
        {}, f"inactivityGap(seconds) with a number above 0, {EXAMPLES}, or an expression of the tuple (rule G4)",
    ),
    "session, inactivityGap(1), maximumDuration(0)": (
        {}, f"maximumDuration(seconds) with a number above 0, {EXAMPLES} (rule G9)",
    ),
    "session, inactivityGap(1), grace(-1)": (
        {}, f"grace(seconds) with a number from 0 on, {EXAMPLES} (rule G5)",
    ),
    "session, inactivityGap(1), inactivityGap(2)": ({}, "inactivityGap only once (rule W12)"),
    "session, inactivityGap(1), partitioned": (
        {}, "no partitioned: a session window is partitioned by partition_by alone",
    ),
    "session, inactivityGap(1), partitionAge(3)": ({}, "no partition eviction in a session window"),
    "session, inactivityGap(1), discardAge(3)": (
        {}, "inactivityGap, maximumDuration or grace in a session window (rule W12)",
    ),
    "session, inactivityGap(page)": ({}, "a size that is float64, in seconds, not string"),
    "session, inactivityGap(wiat)": ({}, "an attribute of visits (user, page, ts, wait, n)"),
    "session, inactivityGap(Max(wait))": ({}, "no aggregate function in a window clause"),
    "session, inactivityGap(1), grace(2)": (
        {"event_time": ""}, "no grace, as the input has no event_time: over the clock no tuple is late (rule G11)",
    ),
    "session, inactivityGap(0.0001)": (
        {"event_time": "event_time: n"}, "inactivityGap(seconds) in whole milliseconds, in which the window counts",
    ),
    "session, inactivityGap(3)": ({"more": "window_set: distinct"}, "window_set only with a slidingTime window"),
    "tumbling, count(2), partitioned": (
        {"more": "emit: updates"},
        "emit only with a slidingTime or session window; early: count(1) gives a result with each tuple",
    ),
    "timeInterval, inactivityGap(2)": (
                {},
        ("intervalDuration, creationPeriod, discardAge, intervalOffset or partitioned in a timeInterval window "
        "(rule W12)"),
    ),
    "sliding, count(2), maximumDuration(2)": ({}, "maximumDuration only in a cumulate or session window (rule W12)"),
    "sliding, count(2), grace(2)": ({}, "grace only in a slidingTime or session window (rule W12)"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "wrong"), WRONG.items())
def test_wrong(text: str, wrong: tuple[dict[str, str], str]):
    parts, expected = wrong
    with pytest.raises(PipelineError) as raised:
        loaded(text, **parts)
    assert expected in [problem.expected for problem in raised.value.problems]


def test_an_expression_that_is_wrong_is_shown_where_it_stands():
    with pytest.raises(PipelineError) as raised:
        loaded("session, inactivityGap(wait + wiat)")
    (problem,) = raised.value.problems
    assert problem.got == "wiat"
    assert problem.hint == "wait"


@pytest.mark.parametrize("kind", ["sort", "custom"])
def test_only_an_aggregate_has_sessions(kind: str):
    more = "order_by: {n: asc}" if kind == "sort" else "handler: tests.spec.handler_classes:Nothing"
    text = FILE.format(window="session, inactivityGap(1)", event_time=TIMED, more=more, output="n: n", kind=kind)
    with pytest.raises(PipelineError) as raised:
        load_text(text.replace("{out: {n: n}}", "[out]"), "file.yaml", environment=None)
    kinds = (
        "tumbling, sliding, timeInterval or cumulate"
        if kind == "sort"
        else "tumbling, sliding, timeInterval, cumulate or slidingTime"
    )
    assert any(problem.expected.startswith(f"a {kinds} window in a {kind}") for problem in raised.value.problems)


def test_the_clock_alone_brings_out_sessions_of_the_clock():
    assert Session(1, clock=True).falls_due(evictions=False)
    assert not Session(1, clock=True, emit="updates").falls_due(evictions=False)
    assert not Session(1).falls_due(evictions=False)


def test_keys_may_be_spread():
    assert layout(loaded("session, inactivityGap(1)", event_time="")).keys == {"visits": (Attribute("user", _STRING),)}
    watermarks = "event_time: ts"  # those of its topic: with a lag, one bucket must see all tuples (E3)
    assert layout(loaded("session, inactivityGap(1)", event_time=watermarks)).keys is not None


_STRING = loaded("session, inactivityGap(1)").streams["visits"].schema[0][1]


def test_explain():
    (stage,) = plan(loaded("session, inactivityGap(30), maximumDuration(600), grace(5)"))
    (step,) = stage.steps
    assert step.windows == ("session, inactivityGap(30.0), maximumDuration(600.0), grace(5.0) by user",)
    assert step.fires == (
        "as the watermark passes the last tuple of a session by 30 s and 5 s of grace, or its first tuple by 600 s"
    )
    assert step.waits == "its session, 30 s of quiet and 5 s of grace, and 2 s, by which watermarks lag"
    assert step.state is not None
    assert step.state.endswith("bytes for each window partition with one session")


def test_explain_over_the_clock():
    (stage,) = plan(loaded("session, inactivityGap(wait)", event_time=""))
    (step,) = stage.steps
    assert step.fires == "as the clock passes the last tuple of a session by wait s"
    assert step.waits == "its session and wait s of quiet"
