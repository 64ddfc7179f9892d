"""Keys with times of their own (KT1 to KT8) give what a slow calculation gives: each key is a stream of its own, and
all of its panes are looked up anew at each event.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.config.load import load_text
from sluice.model.engine_limits import EngineLimits
from sluice.model.errors import PipelineError
from sluice.replayer.player import replay
from tests.spec.every_cut import check_expected
from tests.spec.strategies import Case, cuts
from tests.spec.test_split_and_merge import Division, check_case, divisions

pytestmark = pytest.mark.usefixtures("states_are_checked")

NEVER = float("-inf")


#: what an aggregate, a sort and a class in Python have beside their windows
OF_KIND: dict[str, dict[str, Any]] = {
    "aggregate": {"output": {"k": "k", "from": "intervalStart()", "to": "intervalEnd()", "all": "Collect(i)"}},
    "sort": {"order_by": {"i": "desc"}},
    "custom": {"handler": "tests.spec.handler_classes:Contents"},
}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    start = draw(st.sampled_from([4_000, 1_600_000_000_000]))
    sizes = draw(
        st.sampled_from(
            [
                "timeInterval, intervalDuration(1)", "timeInterval, intervalDuration(2), intervalOffset(0.5)",
                "timeInterval, intervalDuration(2), creationPeriod(0.5)", "cumulate, maximumDuration(3), step(1)",
            ]
        )
    )  # fmt: skip
    age = draw(st.sampled_from(["0", "0", "1", "4"]))
    watermarks = {
        "per": "key", "lag": draw(st.sampled_from([0, 0.5, 2])), "minimum_gap": draw(st.sampled_from([0.001, 0.6])),
        "forget_after": draw(st.sampled_from([6, 20])),
    }  # fmt: skip
    if idle := draw(st.sampled_from([None, 1.5, 6])):
        watermarks["idle_after"] = idle
    kind = "aggregate" if sizes.startswith("cumulate") else draw(st.sampled_from(list(OF_KIND)))
    operator = {
        "kind": kind, "window": f"{sizes}, discardAge({age}), partitioned", "partition_by": ["k"], "event_time": "t",
        "event_time_resolution": "Milliseconds", "watermarks": watermarks,
        "schema": {"k": "string", "i": "int64", "t": "int64"},
    } | OF_KIND[kind]  # fmt: skip
    times = {key: start + shift for key, shift in zip("abc", draw(st.permutations([0, 0, 90_000])), strict=True)}
    at, events = 0.0, []
    for number in range(draw(st.sampled_from([3, 8, 20, 30]))):
        at += draw(st.sampled_from([0, 0, 0.25, 1, 1, 3, 8]))
        key = draw(st.sampled_from("aabbc"))
        times[key] += draw(st.sampled_from([0, 250, 500, 500, 1_000, 2_500]))
        late = draw(st.sampled_from([0, 0, 0, 600, 2_400]))
        event: dict[str, Any] = {"tuple": {"k": key, "i": number, "t": times[key] - late}}
        events.append({"at": at} | draw(st.sampled_from([event, event, event, event, {}])))
    return {"operator": operator, "input": events, "limits": EngineLimits(uncompacted=2)}


# ---- the slow calculation --------------------------------------------------------------------------------------------


@dataclass
class Key:
    #: (time, number) of all tuples; those that came since the watermark moved; the watermark; that of tuples alone
    tuples: list[tuple[int, int]] = field(default_factory=list)
    fresh: list[int] = field(default_factory=list)
    watermark: float = NEVER
    made: float = NEVER
    #: the clock when the last tuple came, and whether the key has become idle since
    heard: float = NEVER
    idle: bool = False


class Slow:
    def __init__(self, operator: dict[str, Any]) -> None:
        sizes = {name: round(float(size) * 1000) for name, size in re.findall(r"(\w+)\(([^)]*)\)", operator["window"])}
        self.growing = "step" in sizes
        self.duration = sizes.get("intervalDuration", sizes.get("maximumDuration", 0))
        self.period = sizes.get("step", sizes.get("creationPeriod", self.duration))
        self.age, self.offset = sizes["discardAge"], sizes.get("intervalOffset", 0)
        of = operator["watermarks"]
        self.lag, self.gap = round(of["lag"] * 1000), round(of["minimum_gap"] * 1000)
        self.idle_after, self.forget_after = of.get("idle_after", float("inf")), of["forget_after"]
        self.keys: dict[str, Key] = {}
        #: all tuples by their numbers
        self.kind, self.rows = operator["kind"], dict[int, dict[str, Any]]()
        self.records: list[dict[str, Any]] = []

    def start(self, end: int) -> int:
        return end - 1 - (end - 1 - self.offset) % self.duration if self.growing else end - self.duration

    def ends(self, time: int) -> Iterator[int]:
        """The ends of the panes that contain a time."""
        step = self.offset % self.period if self.growing else (self.offset + self.duration) % self.period
        first = time + 1 + (step - time - 1) % self.period
        return (
            end for end in range(first, time + self.duration + 1, self.period)
            if self.start(end) <= time < end and not (not self.growing and self.start(end) < 0 < end)
        )  # fmt: skip

    def pass_time(self, number: int, now: float) -> None:
        """Keys become idle, and are forgotten; those of one instant come out in order of the ends of their panes."""
        while True:
            dues = [key.heard + self.idle_after for key in self.keys.values() if not key.idle]
            dues += [key.heard + self.forget_after for key in self.keys.values()]
            instant = min(dues, default=float("inf"))
            if instant > now:
                return
            found = []
            for name, key in self.keys.items():
                gone = key.heard + self.forget_after <= instant
                if gone or (not key.idle and key.heard + self.idle_after <= instant):
                    last = [end for time, _ in key.tuples for end in self.ends(time)]
                    key.idle = True
                    goal = max([key.watermark, *last])
                    found += [(end, name) for end in self.due(key, goal)]
            for end, name in sorted(found):
                self.write(number, name, end)
            for name, key in list(self.keys.items()):
                if key.heard + self.forget_after <= instant:
                    del self.keys[name]

    def due(self, key: Key, goal: float) -> list[int]:
        """The ends of the panes that fire as the watermark of the key goes to the goal, which it does."""
        ends = sorted({end for time, _ in key.tuples for end in self.ends(time)})
        new = {end for time in key.fresh for end in self.ends(time)}
        found = [end for end in ends if end <= goal and (end > key.watermark or end in new)]
        key.watermark, key.fresh = goal, []
        return found

    def insert(self, number: int, at: float, name: str, time: int) -> None:
        key = self.keys.setdefault(name, Key())
        key.heard, key.idle = at, False
        if time >= key.watermark - self.age:
            key.tuples.append((time, number))
            key.fresh.append(time)
        made = time - self.lag
        if made > key.made and (key.made == NEVER or made >= key.made + self.gap):
            key.made = made
            for end in self.due(key, made) if made > key.watermark else []:
                self.write(number, name, end)

    def write(self, number: int, name: str, end: int) -> None:
        start = self.start(end)
        inside = [i for time, i in self.keys[name].tuples if start <= time < end]
        results = {
            "aggregate": [{"k": name, "from": start, "to": end, "all": inside}],
            "sort": [self.rows[i] for i in sorted(inside, reverse=True)],
            "custom": [{"is": inside}],
        }
        self.records += [{"after": number, "tuple": values} for values in results[self.kind]]
        self.records.append({"after": number, "punct": "window"})


def expected(case: Case) -> list[dict[str, Any]]:
    slow = Slow(case["operator"])
    for number, event in enumerate(case["input"]):
        slow.pass_time(number, event["at"])
        if "tuple" in event:
            slow.rows[number] = event["tuple"]
            slow.insert(number, event["at"], event["tuple"]["k"], event["tuple"]["t"])
    return slow.records


@given(cases(), cuts)
@settings(max_examples=24, derandomize=True, deadline=None)
def test_random_keys(case: Case, batches: list[int]):
    check_expected(expected, case, [1] * len(case["input"]), batches)


@given(cases(), divisions())
@settings(max_examples=15, derandomize=True, deadline=None)
def test_states_that_are_split_and_merged(case: Case, division: Division):
    check_case(case, division)


# ---- the end, and panes of panes -------------------------------------------------------------------------------------

STREAMS = """
pipeline: devices
streams:
  in: {topic: in, schema: {k: string, ts: int64, i: int64}, event_time: {attribute: ts, lag: 1s, per: key MORE}}
  made: {}
  tens: {topic: tens}
  minutes: {topic: minutes}
operators:
  - {name: pass, map: in, output: [made]}
  - name: tens
    aggregate: made
    window: timeInterval, intervalDuration(10), partitioned
    partition_by: [k]
    output: {tens: {k: k, ts: intervalLast(), n: Count()}}
  - name: minutes
    aggregate: tens
    window: timeInterval, intervalDuration(60), partitioned
    partition_by: [k]
    output: {minutes: {k: k, ts: intervalLast(), n: Sum(n)}}
"""


def results(more: str, *events: dict[str, Any]) -> list[tuple[Any, ...]]:
    text = STREAMS.replace(" MORE", more)
    found = list(replay(load_text(text, "devices", environment=None), [{"stream": "in"} | event for event in events]))
    assert not [r for r in found if r.get("dead_letter", {}).get("operator") == "tens"]
    return [(r["after"], r["stream"], *r["tuple"].values()) for r in found if "tuple" in r]


def of(at: float, key: str, ts: int) -> dict[str, Any]:
    return {"at": at, "tuple": {"k": key, "ts": ts, "i": 0}}


def test_the_end_of_the_stream():
    """KT5: behind a map the maximum watermark closes the panes of all keys, in the order of their ends."""
    events = [of(0, "b", 500_000), of(1, "a", 3_000), of(2, "a", 15_000), {"at": 3, "punct": "final"}]
    assert results("", *events) == [
        (2, "tens", "a", 9_999, 1), (3, "tens", "a", 19_999, 1), (3, "tens", "b", 509_999, 1),
        (3, "minutes", "a", 59_999, 2), (3, "minutes", "b", 539_999, 1),
    ]  # fmt: skip


def test_panes_of_panes_of_a_device():
    """KT8: the results have a time of each key, too; the last ones close by the clock, one after the other."""
    events = [of(0, "b", 500_000), of(1, "a", 55_000), of(2, "a", 75_000), of(3, "a", 130_000), {"at": 40}]
    assert results(", idle_after: 10s", *events) == [
        (2, "tens", "a", 59_999, 1), (3, "tens", "a", 79_999, 1), (3, "minutes", "a", 59_999, 1),
        (4, "tens", "b", 509_999, 1), (4, "tens", "a", 139_999, 1), (4, "minutes", "a", 119_999, 1),
        (4, "minutes", "b", 539_999, 1), (4, "minutes", "a", 179_999, 1),
    ]  # fmt: skip


def test_panes_with_one_end_come_out_in_the_order_in_which_their_keys_are_idle():
    """Only the keys that are idle at one instant are in order of their bytes (KT3)."""
    found = results(", idle_after: 10s", of(0, "b", 5_000), of(1, "a", 5_000), of(1, "c", 5_000), {"at": 40})
    assert [record[1:3] for record in found] == [(s, key) for s in ("tens", "minutes") for key in "bac"]


def test_a_key_that_was_forgotten_begins_anew():
    """KT4: its tuples of a day ago are not late then."""
    events = [of(0, "a", 86_400_000), of(30, "b", 1), of(31, "a", 1_000), of(32, "a", 12_000)]
    assert results(", forget_after: 20s", *events)[:2] == [(1, "tens", "a", 86_409_999, 1), (3, "tens", "a", 9_999, 1)]


@pytest.mark.parametrize("window", ["timeInterval, intervalDuration(1d)", "cumulate, maximumDuration(1d), step(12h)"])
def test_the_day_of_a_device_that_is_idle_closes(window: str):
    """KT3: with a discardAge a tuple is late if it is that much before the end of the last day, here 22:00 UTC."""
    text = f"""
pipeline: days
streams:
  in:
    topic: in
    schema: {{k: string, ts: timestamp}}
    event_time: {{attribute: ts, lag: 1s, per: key, idle_after: 5s}}
  days: {{topic: days}}
operators:
  - name: day
    aggregate: in
    window: "{window}, discardAge(2h), partitioned"
    align: {{zone: Europe/Berlin}}
    partition_by: [k]
    output: {{days: {{to: intervalEnd(), n: Count()}}}}
"""
    times = ["2024-04-01T10:30:00Z", "2024-04-01T19:59:59Z", "2024-04-01T20:00:00Z"]
    events = [{"at": 10.0 * n, "stream": "in", "tuple": {"k": "a", "ts": time}} for n, time in enumerate(times)]
    found = list(replay(load_text(text, "days", environment=None), [*events, {"at": 40.0}]))
    (letter,) = [record["dead_letter"]["reason"] for record in found if "dead_letter" in record]
    assert letter == "late: ts is 1 s before the watermark of its key less discardAge"
    assert [record["tuple"]["n"] for record in found if "tuple" in record][-1] == 2


# ---- what is refused -------------------------------------------------------------------------------------------------

LATE = "timeInterval, intervalDuration(5), discardAge(5), partitioned"
REFUSED = {
    "a stream time": (
        'aggregate: in, window: "slidingTime, timeDifference(5)", partition_by: [k]',
        "slidingTime has the stream time of a topic partition",
    ),
    "no keys": ('aggregate: in, window: "timeInterval, intervalDuration(5)"', "a key is what partition_by names"),
    "a count of all keys": (
        'aggregate: in, window: "timeInterval, intervalDuration(5), partitioned", partition_by: [k], all: CountAll()',
        "CountAll() counts the tuples of all keys",
    ),
    "firings of all keys": (
        f'aggregate: in, window: "{LATE}", partition_by: [k], all: paneIndex()',
        "count the firings of a pane over all keys",
    ),
    "duplicates over event time": ("dedup: in, by: [k], within: eventTime(5)", "use within: time(...)"),
}


@pytest.mark.parametrize(("operator", "why"), REFUSED.values(), ids=REFUSED)
def test_what_needs_a_watermark_of_the_stream_is_refused(operator: str, why: str):
    operator, _, call = operator.partition(", all: ")
    output = "[out]" if "dedup" in operator else f"{{out: {{n: {call or 'Count()'}}}}}"
    text = f"""
pipeline: p
streams:
  in: {{topic: in, schema: {{k: string, ts: int64}}, event_time: {{attribute: ts, lag: 1s, per: key}}}}
  out: {{topic: out}}
operators:
  - {{name: a, {operator}, output: {output}}}
"""
    with pytest.raises(PipelineError) as error:
        load_text(text, "p", environment=None)
    (problem,) = error.value.problems
    assert why in problem.expected
    assert problem.expected.startswith("no stream whose keys have times of their own (in): ")


def test_the_trace_has_the_panes_of_the_key_that_fire():
    text = STREAMS.replace(" MORE", "")
    events = [{"stream": "in"} | event for event in (of(0, "b", 500_000), of(1, "a", 3_000), of(2, "a", 15_000))]
    records = replay(load_text(text, "devices", environment=None), events, trace=True)
    found = [(r["after"], r["key"], len(r["content"])) for r in records if r.get("window_event") == "trigger"]
    assert found == [(2, "a", 1)]
