"""Sessions of keys with times of their own (KT1 to KT6) give what a slow calculation gives: each key has the sessions
of the oracle for itself, and at each event everything is looked up anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.config.load import load_text
from sluice.model.engine_limits import EngineLimits
from sluice.replayer.player import replay
from tests.spec import session_oracle
from tests.spec.every_cut import check_expected
from tests.spec.oracle import Stored, key_bytes
from tests.spec.session_oracle import Session, Sessions
from tests.spec.strategies import Case, cuts
from tests.spec.test_split_and_merge import Division, check_case, divisions

pytestmark = pytest.mark.usefixtures("states_are_checked")

NEVER = -math.inf


@st.composite
def cases(draw: st.DrawFn) -> Case:
    parts = ["session", f"inactivityGap({draw(st.sampled_from(['0.5', '1', '2', 'g']))})"]
    parts += draw(st.sampled_from([[], [], ["maximumDuration(1.5)"], ["maximumDuration(3)"]]))
    parts += draw(st.sampled_from([[], [], ["grace(0.5)"], ["grace(3)"]]))
    watermarks = {
        "per": "key", "lag": draw(st.sampled_from([0, 0.5, 2])), "minimum_gap": draw(st.sampled_from([0.001, 0.6])),
        "forget_after": draw(st.sampled_from([6, 20])),
    }  # fmt: skip
    if idle := draw(st.sampled_from([None, 1.5, 6])):
        watermarks["idle_after"] = idle
    emit = draw(st.sampled_from(["final", "final", "final", "updates"]))
    early = draw(st.sampled_from(["", "", "count(2)", "time(1.5)", "count(3) or time(0.5)"])) if emit == "final" else ""
    operator = {
        "kind": "aggregate", "window": ", ".join(parts), "partition_by": ["k"], "emit": emit, "early": early,
        "event_time": "t", "event_time_resolution": "Milliseconds", "watermarks": watermarks,
        "schema": {"k": "string", "i": "int64", "t": "int64", "g": "float64"},
        "output": {"k": "k", "from": "sessionStart()", "to": "sessionEnd()", "all": "Collect(i)", "early": "isEarly()"},
    }  # fmt: skip
    start = draw(st.sampled_from([4_000, 1_600_000_000_000]))
    times = {key: start + shift for key, shift in zip("abc", draw(st.permutations([0, 0, 90_000])), strict=True)}
    at, events = 0.0, []
    for number in range(draw(st.sampled_from([3, 8, 20, 30]))):
        at += draw(st.sampled_from([0, 0, 0.25, 1, 1, 3, 8]))
        key = draw(st.sampled_from("aabbc"))
        times[key] += draw(st.sampled_from([0, 250, 500, 500, 1_000, 2_500]))
        late = draw(st.sampled_from([0, 0, 0, 600, 2_400, 5_000]))
        values = {"k": key, "i": number, "t": times[key] - late, "g": draw(st.sampled_from([0.5, 1.0, 4.0]))}
        events.append({"at": at} | draw(st.sampled_from([{"tuple": values}] * 4 + [{}])))
    return {"operator": operator, "input": events, "limits": EngineLimits(uncompacted=2)}


# ---- the slow calculation --------------------------------------------------------------------------------------------


@dataclass
class Key:
    sessions: Sessions
    #: the newest watermark that its tuples gave, and the clock when the last tuple came
    made: float = NEVER
    heard: float = NEVER
    idle: bool = False
    #: the tuples that were in no result: their numbers, and the clock when they came
    new: dict[int, float] = field(default_factory=dict)

    def over(self, goal: float) -> list[tuple[float, Session]]:
        """The sessions that are over at a watermark, which the key reaches; each with its reach."""
        sessions, goal = self.sessions, max(goal, self.sessions.now)
        open_ones = [session for some in sessions.open.values() for session in some]
        gone = [(sessions.reach(s), s) for s in open_ones if sessions.reach(s) + sessions.grace < goal]
        list(sessions.advance(goal))  # type: ignore[arg-type]
        return sorted(gone, key=lambda entry: entry[0])

    def last_reach(self) -> float:
        reaches = [self.sessions.reach(s) for some in self.sessions.open.values() for s in some]
        return max(reaches, default=NEVER) + self.sessions.grace + 1


class Slow:
    def __init__(self, operator: dict[str, Any]) -> None:
        self.operator, given_times = operator, operator["watermarks"]
        self.lag, self.gap = round(given_times["lag"] * 1000), round(given_times["minimum_gap"] * 1000)
        self.idle_after, self.forget_after = given_times.get("idle_after", math.inf), given_times["forget_after"]
        self.every, self.wait = math.inf, math.inf
        for part in operator["early"].split(" or ") if operator["early"] else []:
            word, size = part.rstrip(")").split("(")
            self.every, self.wait = (int(size), self.wait) if word == "count" else (self.every, float(size))
        self.keys: dict[str, Key] = {}
        self.records: list[dict[str, Any]] = []

    def write(self, after: int, name: str, session: Session, *, early: bool = False) -> None:
        inside = sorted(t.stored.arrived for t in session.tuples)
        for number in inside:
            self.keys[name].new.pop(number, None)
        values = {"k": name, "from": session.first, "to": session.last, "all": inside, "early": early}
        self.records.append({"after": after, "tuple": values})
        if not early:
            self.records.append({"after": after, "punct": "window"})

    def ended(
        self, after: int, gone: list[tuple[float, str, Session]], early: Sequence[tuple[float, str, Session]] = ()
    ) -> None:
        """Sessions that are over, and early results, in the order of their reach, then of keys (G8, F5)."""
        entries = [(*entry, False) for entry in gone] + [(*entry, True) for entry in early]
        for _, name, session, is_early in sorted(entries, key=lambda entry: (entry[0], key_bytes((entry[1],)))):
            if is_early or self.operator["emit"] == "final":
                self.write(after, name, session, early=is_early)
            for t in session.tuples:
                self.keys[name].new.pop(t.stored.arrived, None)

    def early_dues(self) -> Iterator[tuple[float, float, str, Session]]:
        """When each open session has an early result by time: its clock, its reach, its key (F2, F5)."""
        for name, key in self.keys.items():
            for session in (s for some in key.sessions.open.values() for s in some):
                came = [key.new[t.stored.arrived] for t in session.tuples if t.stored.arrived in key.new]
                if came:
                    yield min(came) + self.wait, key.sessions.reach(session), name, session

    def pass_time(self, after: int, now: float) -> None:
        """Keys become idle and are forgotten; a session that is over has no early result of the same instant (KT3)."""
        while True:
            dues = [key.heard + self.idle_after for key in self.keys.values() if not key.idle]
            dues += [key.heard + self.forget_after for key in self.keys.values()]
            dues += [due for due, *_ in self.early_dues()]
            instant = min(dues, default=math.inf)
            if instant > now:
                return
            gone: list[tuple[float, str, Session]] = []
            for name, key in self.keys.items():
                forgotten = key.heard + self.forget_after <= instant
                if forgotten or (not key.idle and key.heard + self.idle_after <= instant):
                    key.idle = True
                    gone += [(reach, name, session) for reach, session in key.over(key.last_reach())]
            early = [(reach, name, session) for due, reach, name, session in self.early_dues() if due <= instant]
            self.ended(after, gone, early)
            for name, key in list(self.keys.items()):
                if key.heard + self.forget_after <= instant:
                    del self.keys[name]

    def insert(self, number: int, at: float, values: dict[str, Any]) -> None:
        name, time = values["k"], values["t"]
        key = self.keys.setdefault(name, Key(session_oracle.window(self.operator)))
        key.heard, key.idle = at, False
        found, firings = key.sessions.insert((name,), time, Stored(values, number, 0))
        if found:
            key.new[number] = at
            (session,) = (
                s for some in key.sessions.open.values() for s in some
                if number in [t.stored.arrived for t in s.tuples]
            )  # fmt: skip
            if firings:
                self.write(number, name, session)
            elif sum(t.stored.arrived in key.new for t in session.tuples) >= self.every:
                self.write(number, name, session, early=True)
        made = time - self.lag
        if made > key.made and (key.made == NEVER or made >= key.made + self.gap):
            key.made = made
            self.ended(number, [(reach, name, session) for reach, session in key.over(made)])


def expected(case: Case) -> list[dict[str, Any]]:
    slow = Slow(case["operator"])
    for number, event in enumerate(case["input"]):
        slow.pass_time(number, event["at"])
        if "tuple" in event:
            slow.insert(number, event["at"], event["tuple"])
    return slow.records


@given(cases(), cuts)
@settings(max_examples=28, derandomize=True, deadline=None)
def test_random_keys(case: Case, batches: list[int]):
    """A cut in front of each event, too; at each the state is saved and loaded."""
    check_expected(expected, case, [1] * len(case["input"]), batches)


@given(cases(), divisions())
@settings(max_examples=15, derandomize=True, deadline=None)
def test_states_that_are_split_and_merged(case: Case, division: Division):
    check_case(case, division)


# ---- single rules ----------------------------------------------------------------------------------------------------

STREAMS = """
pipeline: devices
streams:
  in: {topic: in, schema: {k: string, ts: int64}, event_time: {attribute: ts, lag: 1s, per: key, idle_after: 10s}}
  made: {}
  visits: {topic: visits}
operators:
  - {name: pass, map: in, output: [made]}
  - name: visits
    aggregate: made
    window: session, inactivityGap(30)
    partition_by: [k]
    output: {visits: {k: k, ts: sessionEnd(), n: Count()}}
"""


def of(at: float, key: str, ts: int) -> dict[str, Any]:
    return {"at": at, "stream": "in", "tuple": {"k": key, "ts": ts}}


def results(*events: dict[str, Any]) -> list[tuple[Any, ...]]:
    records = list(replay(load_text(STREAMS, "devices", environment=None), [*events]))
    return [(r["after"], *r["tuple"].values()) for r in records if "tuple" in r]


def test_a_device_that_uploads_a_day_later_is_not_late():
    events = [of(0, "b", 90_000_000), of(1, "a", 1_000), of(2, "a", 20_000), of(3, "a", 99_000)]
    assert results(*events, {"at": 30, "stream": "in"}) == [
        (3, "a", 20_000, 2), (4, "b", 90_000_000, 1), (4, "a", 99_000, 1),
    ]  # fmt: skip


def test_the_end_of_the_stream_ends_the_sessions_of_all_keys_in_order():
    events = [of(0, "b", 5_000), of(1, "a", 1_000_000), of(1, "c", 5_000), {"at": 3, "stream": "in", "punct": "final"}]
    assert results(*events) == [(3, "b", 5_000, 1), (3, "c", 5_000, 1), (3, "a", 1_000_000, 1)]


TRIPS = """  - name: trips
    aggregate: visits
    window: session, inactivityGap(60)
    partition_by: [k]
    output: {trips: {k: k, ts: sessionEnd(), n: Count()}}
"""


def test_sessions_with_one_end_come_out_in_the_order_in_which_their_keys_are_idle():
    """G8 orders the keys of one instant alone; both instants of a session behind another one are in one batch."""
    text = STREAMS.replace("  made: {}", "  made: {}\n  trips: {topic: trips}") + TRIPS
    events = [of(0, "b", 5_000), of(1, "a", 5_000), of(1, "c", 5_000), {"at": 40, "stream": "in"}]
    records = list(replay(load_text(text, "devices", environment=None), events))
    found = [(r["stream"], r["tuple"]["k"]) for r in records if "tuple" in r]
    assert found == [(stream, key) for stream in ("visits", "trips") for key in "bac"]


def test_a_late_tuple_is_late_by_the_time_of_its_key():
    events = [of(0, "a", 1_000), of(1, "a", 99_000), of(1, "b", 2_000), of(2, "a", 3_000)]
    records = list(replay(load_text(STREAMS, "devices", environment=None), events))
    (letter,) = (r["dead_letter"] for r in records if "dead_letter" in r)
    assert letter["reason"] == "late: its session was over 65 s before the watermark of its key less grace"
