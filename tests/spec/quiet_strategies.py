"""Random windows over streams whose watermark follows the clock, and events with pauses, so that the streams are quiet
now and then.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.spec import event_strategies, session_strategies
from tests.spec.early_strategies import with_early
from tests.spec.event_strategies import shown
from tests.spec.strategies import SOURCES, Case, choices, narrowed, tuples

#: seconds between events; some are as long as an `idle_after`, or as the steps of the watermark
PAUSES = [0.0, 0.0, 0.0, 0.0, 0.01, 0.25, 0.5, 0.5, 1.0, 2.5, 3.0, 3.5, 6.0, 20.0]
#: how far the event times are behind the clock, in milliseconds
DELAYS = [0, 0, 0, 1, 500, 1_000, 3_000, -500]
MARKS: list[dict[str, Any]] = [{}, {}, {"punct": "window"}, {"watermark": True}, {"punct": "final"}]
moments = choices({
    "pause": PAUSES, "what": ["tuple"] * 7 + ["mark"] * 2 + ["nothing"], "delay": DELAYS, "mark": MARKS,
    "source": SOURCES,
})  # fmt: skip


@st.composite
def events(draw: st.DrawFn, schema: dict[str, str]) -> list[dict[str, Any]]:
    at = draw(st.sampled_from([0.0, 4.0, 1_600_000_000.0]))
    one_source, rows = draw(st.booleans()), tuples(schema.keys() - {"e"})
    drawn: list[dict[str, Any]] = []
    for _ in range(draw(st.sampled_from([3, 6, 12, 25]))):
        moment = draw(moments)
        at += moment["pause"]
        event: dict[str, Any] = {"at": at, "topic_partition": 0 if one_source else moment["source"]}
        if moment["what"] == "tuple":
            event["tuple"] = {**draw(rows), "e": shown(round(at * 1000) - moment["delay"], schema["e"])}
        elif moment["what"] == "mark":
            event |= {name: at if name == "watermark" else value for name, value in moment["mark"].items()}
        drawn.append(event)
    return drawn


@st.composite
def _cases(draw: st.DrawFn, kinds: st.SearchStrategy[dict[str, Any]]) -> Case:
    operator = narrowed(draw(kinds))
    operator["watermarks"] = {
        "lag": draw(st.sampled_from([0, 0, 0.5, 2])), "minimum_gap": draw(st.sampled_from([0, 0.1, 0.5])),
        "idle_after": draw(st.sampled_from([0.5, 1, 3])), "advance": True,
    }  # fmt: skip
    return {"operator": operator, "input": draw(events(operator["schema"]))}


def _of(word: str) -> st.SearchStrategy[dict[str, Any]]:
    return event_strategies.operators().filter(lambda operator: operator["window"].startswith(word))


_sessions = st.sampled_from(sorted(event_strategies.TYPES)).flatmap(session_strategies.operators)
sliding_times, panes, sessions = _cases(_of("slidingTime")), _cases(_of("timeInterval")), _cases(_sessions)
early_results = st.one_of(with_early(panes), with_early(sessions))
cases = st.one_of(sliding_times, sliding_times, panes, sessions, early_results)
