"""Random windows over event time and events for them: times few and close, so that they meet, and mostly forward."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.spec.join_strategies import orders
from tests.spec.oracle import EPOCH
from tests.spec.strategies import (
    CALLS,
    SCHEMA,
    SOURCES,
    Case,
    choices,
    groups,
    keys,
    narrowed,
    passed,
    punct,
    schema_of,
    tuples,
)

TYPES = {"float64": None, "int64": "Milliseconds", "timestamp": None}
#: where the times of a case are, in milliseconds: around 0, small, of this century
STARTS = [-3_000, 0, 4_000, 1_600_000_000_000]
STEPS = [0, 0, 1, 1, 250, 500, 500, 1_000, 1_000, 2_500, 7_000]
seconds = st.sampled_from(["0.5", "1", "1.5", "2", "3", "5"])
ages = st.sampled_from(["0", "0", "0.5", "1", "4", "9"])
offsets = st.sampled_from(["0", "0.5", "1", "4", "9", "-0.5", "-1", "-7"])
graces = st.sampled_from(["0", "0", "0.001", "0.5", "2", "5"])
sets = st.sampled_from(["distinct", "distinct", "perTimestampForward", "perTimestampBackward"])
moments = choices({
    "step": STEPS, "what": ["tuple"] * 6 + ["watermark"] * 3 + ["mark"], "delay": [0, 0, 0, 0, 1, 500, 1_000, 3_000],
    "behind": [0, 1_000, 4_000], "mark": [None, None, "window", "window", "final"], "source": SOURCES,
})  # fmt: skip
PANE_CALLS = ["intervalStart()", "intervalEnd()", "paneIndex()", "paneTiming()"]


@st.composite
def intervals(draw: st.DrawFn) -> str:
    parts = [f"intervalDuration({draw(seconds)})"]
    if draw(st.booleans()):
        parts.append(f"creationPeriod({draw(seconds)})")
    if draw(st.booleans()):
        parts.append(f"intervalOffset({draw(offsets)})")
    return ", ".join(["timeInterval", *parts, f"discardAge({draw(ages)})"])


@st.composite
def cumulates(draw: st.DrawFn) -> str:
    step, count = draw(st.sampled_from([500, 1_000, 2_500])), draw(st.integers(1, 4))
    parts = [f"step({step / 1000})", f"maximumDuration({step * count / 1000})", f"discardAge({draw(ages)})"]
    if draw(st.booleans()):
        parts.append(f"intervalOffset({draw(offsets)})")
    return ", ".join(["cumulate", *draw(st.permutations(parts))])


intervals_or_steps = st.one_of(intervals(), intervals(), cumulates())


@st.composite
def sliding_times(draw: st.DrawFn) -> str:
    return (
        f"slidingTime, timeDifference({draw(st.sampled_from(['0.001', '0.5', '1', '2', '3']))}), grace({draw(graces)})"
    )


@st.composite
def operators(draw: st.DrawFn, types: tuple[str, ...] = tuple(sorted(TYPES))) -> dict[str, Any]:
    sliding = draw(st.booleans())
    partition_by = draw(st.one_of(st.just([]), keys))
    window = draw(sliding_times() if sliding else intervals_or_steps)
    calls = draw(st.lists(st.sampled_from(CALLS), max_size=4, unique=True))
    kind = draw(st.sampled_from(types))
    panes = PANE_CALLS[: 2 if sliding else draw(st.sampled_from([2, 4]))]  # paneIndex and paneTiming need one bucket
    more: dict[str, Any] = {"event_time_resolution": TYPES[kind]} if TYPES[kind] else {}
    if sliding:
        more |= {
            "emit": draw(st.sampled_from(["final", "updates"])),
            "window_set": draw(
                st.sampled_from(["distinct", "distinct", "perTimestampForward", "perTimestampBackward"])
            ),
        }
    return {
        "kind": "aggregate", "window": window + ", partitioned" * (bool(partition_by) and not sliding),
        "partition_by": partition_by, "group_by": draw(groups), "event_time": "e",
        "aggregate_incomplete_windows": False,
        "output": {
            f"o{n}": call
            for n, call in enumerate([*panes, *["intervalLast()"] * (not sliding), "Count()", "Collect(i)", *calls])
        },
        "schema": SCHEMA | {"e": kind},
    } | more  # fmt: skip


@st.composite
def sorts(draw: st.DrawFn) -> dict[str, Any]:
    """Over timeInterval."""
    partition_by, kind = draw(st.one_of(st.just([]), keys)), draw(st.sampled_from(sorted(TYPES)))
    order_by = draw(orders)
    schema = schema_of(partition_by, [name for name, _ in order_by], draw(passed)) | {"e": kind}
    return {
        "kind": "sort", "window": draw(intervals_or_steps) + ", partitioned" * bool(partition_by),
        "partition_by": partition_by, "event_time": "e", "order_by": order_by, "schema": schema,
        "limit": draw(st.sampled_from([None, None, 1, 2])),
    } | ({"event_time_resolution": TYPES[kind]} if TYPES[kind] else {})  # fmt: skip


def shown(milliseconds: int, kind: str) -> Any:
    """The time as JSON has it."""
    if kind == "int64":
        return milliseconds
    if kind == "float64":
        return milliseconds / 1000
    seconds, rest = divmod(milliseconds, 1000)
    text = (EPOCH + seconds * (EPOCH.resolution * 10**6)).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{rest:03d}Z"


@st.composite
def events(draw: st.DrawFn, schema: dict[str, str], *, watermarks: bool) -> list[dict[str, Any]]:
    newest = draw(st.sampled_from(STARTS))
    drawn: list[dict[str, Any]] = []
    one_source, rows = draw(st.booleans()), tuples(schema.keys() - {"e"})
    for number in range(draw(st.sampled_from([3, 6, 12, 25, 40]))):
        moment = draw(moments)
        newest += moment["step"]
        event: dict[str, Any] = {"at": float(number), "topic_partition": 0 if one_source else moment["source"]}
        if moment["what"] == "tuple" or (moment["what"] == "watermark" and not watermarks):
            event["tuple"] = {**draw(rows), "e": shown(newest - moment["delay"], schema["e"])}
        elif moment["what"] == "watermark":
            event["watermark"] = (newest - moment["behind"]) / 1000
        else:
            event |= punct(moment["mark"])
        drawn.append(event)
    return drawn


@st.composite
def _cases(draw: st.DrawFn, kinds: st.SearchStrategy[dict[str, Any]]) -> Case:
    operator = draw(kinds)
    if operator["kind"] == "aggregate":
        operator = narrowed(operator)
    sliding = operator["window"].startswith("slidingTime")
    return {"operator": operator, "input": draw(events(operator["schema"], watermarks=not sliding))}


cases, sort_cases = _cases(operators()), _cases(sorts())
cases_of_int64 = _cases(operators(("int64",)))
