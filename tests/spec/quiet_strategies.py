"""Random windows over streams whose watermark follows the clock, and events with pauses, so that the streams are quiet
now and then.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.spec import event_strategies, session_strategies
from tests.spec.early_strategies import with_early
from tests.spec.event_strategies import shown
from tests.spec.strategies import SCHEMA, Case, sources, tuples

#: seconds between events; some are as long as an `idle_after`, or as the steps of the watermark
PAUSES = [0.0, 0.0, 0.0, 0.0, 0.01, 0.25, 0.5, 0.5, 1.0, 2.5, 3.0, 3.5, 6.0, 20.0]
#: how far the event times are behind the clock, in milliseconds
DELAYS = [0, 0, 0, 1, 500, 1_000, 3_000, -500]


@st.composite
def events(draw: st.DrawFn, names: set[str], kind: str) -> list[dict[str, Any]]:
    at = draw(st.sampled_from([0.0, 4.0, 1_600_000_000.0]))
    one_source = draw(st.booleans())
    found: list[dict[str, Any]] = []
    for _ in range(draw(st.sampled_from([3, 6, 12, 25]))):
        at += draw(st.sampled_from(PAUSES))
        event: dict[str, Any] = {"at": at, "topic_partition": 0 if one_source else draw(sources)}
        choice = draw(st.integers(0, 9))
        if choice < 7:
            time = round(at * 1000) - draw(st.sampled_from(DELAYS))
            event["tuple"] = {**draw(tuples(names)), "e": shown(time, kind)}
        elif choice < 9:
            event |= draw(st.sampled_from([{}, {}, {"punct": "window"}, {"watermark": at}, {"punct": "final"}]))
        found.append(event)
    return found


@st.composite
def _cases(draw: st.DrawFn, kinds: st.SearchStrategy[dict[str, Any]]) -> Case:
    operator = draw(kinds)
    operator["watermarks"] = {
        "lag": draw(st.sampled_from([0, 0, 0.5, 2])), "minimum_gap": draw(st.sampled_from([0, 0.1, 0.5])),
        "idle_after": draw(st.sampled_from([0.5, 1, 3])), "advance": True,
    }  # fmt: skip
    return {"operator": operator, "input": draw(events(set(SCHEMA), operator["schema"]["e"]))}


def _of(word: str) -> st.SearchStrategy[dict[str, Any]]:
    return event_strategies.operators().filter(lambda operator: operator["window"].startswith(word))


_sessions = st.sampled_from(sorted(event_strategies.TYPES)).flatmap(session_strategies.operators)
sliding_times, panes, sessions = _cases(_of("slidingTime")), _cases(_of("timeInterval")), _cases(_sessions)
early_results = st.one_of(with_early(panes), with_early(sessions))
cases = st.one_of(sliding_times, sliding_times, panes, sessions, early_results)
