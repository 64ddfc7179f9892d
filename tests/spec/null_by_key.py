"""`make fuzz-nulls CASES=n`: compares the engine with the oracles of null on n random cases, thousands in one run.

A *case* is one key of a run. A run has one random operator, partitioned by the key, and each key has tuples of its own:
their values, which of them are null, and in which rounds they come are random. The engine gets the tuples of all keys
together, in random batches, with its state saved and loaded between them; the oracle gets those of one key alone. The
keys of a run share the operator, the times of the rounds, the marks and the watermarks. Tuples and dead letters of each
key are compared; marks, which all keys share, are not.

A difference is printed with the operator and the events of the key, and belongs into tests/spec/kept_finds.py.
"""

from __future__ import annotations

import random
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis import strategies as st

from sluice.testing import run_case
from tests.spec import (
    dedup_oracle,
    dedup_strategies,
    event_oracle,
    event_strategies,
    join_oracle,
    join_strategies,
    oracle,
    session_oracle,
    session_strategies,
    strategies,
)
from tests.spec.comparing import Record, equal
from tests.spec.every_cut import CLEANED_EARLY
from tests.spec.strategies import SCHEMA, VALUES, Case

#: keys of a run
KEYS = 1_000
#: what the oracles give: the records, and the numbers of the events that are dead letters; None: they do not say it
Outcome = tuple[list[Record], list[int] | None]
#: attributes that may be in the partition beside the key of the case: null is a partition of its own (NU24)
BESIDE = st.sampled_from([[], ["n"], ["b"], ["d"], ["f"], ["t"]])
#: of how many values of an optional attribute one is null
ONE_OF = [1, 2, 2, 4, 8]


#: what a window gives for all keys together: the index and the timing of a pane, the number of all tuples
OF_ALL_KEYS = ("pane", "CountAll", "CountByGroup")


# ---- random operators ------------------------------------------------------------------------------------------------


@st.composite
def by_the_clock(draw: st.DrawFn) -> dict[str, Any]:
    operator = draw(strategies.operators())
    window = _partitioned(operator["window"])
    output = _of_one_key(operator["output"])
    own = {"window": window, "partition_by": ["k", *draw(BESIDE)], "aggregate_evicted_partitions": False}
    return operator | own | {"output": output}


@st.composite
def over_event_time(draw: st.DrawFn, operators: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    operator = draw(operators)
    assume(not operator["window"].startswith("slidingTime"))  # its grace follows the times of all keys
    if not operator["window"].startswith("session"):
        operator["window"] = operator["window"].removesuffix(", partitioned") + ", partitioned"
    if "output" in operator:
        operator["output"] = _of_one_key(operator["output"])
    return operator | {"partition_by": ["k", *draw(BESIDE)]}


@st.composite
def dedups(draw: st.DrawFn) -> dict[str, Any]:
    operator = draw(st.one_of(dedup_strategies.over_the_clock, dedup_strategies.cases))["operator"]
    return operator | {"by": ["k", *draw(BESIDE)]}


@st.composite
def sorts_by_the_clock(draw: st.DrawFn) -> dict[str, Any]:
    operator = draw(join_strategies.sorts())
    return operator | {"window": _partitioned(operator["window"]), "partition_by": ["k", *draw(BESIDE)]}


@st.composite
def joins(draw: st.DrawFn) -> dict[str, Any]:
    operator = draw(join_strategies.joins())
    sides = {side: _partitioned(operator[side]) for side in ("left", "right")}
    keys = {name: ["k", *draw(BESIDE)] for name in ("partition_by_left", "partition_by_right")}
    equality = ["k", *draw(BESIDE)]
    operator |= {**sides, **keys, "equality_left": equality, "equality_right": equality}
    outer = {"default_right": ("leftOuter", "outer"), "default_left": ("rightOuter", "outer")}
    apart = operator.get("unmatched_left") or operator.get("unmatched_right")
    absent = [side for side, words in outer.items() if operator["algorithm"] in words and not apart]
    return operator | {side: None for side in absent if draw(st.booleans())} | {
        "output": {**operator["output"], "lk": "left.k", "rk": "right.k"}
    }  # fmt: skip


def _of_one_key(output: dict[str, str]) -> dict[str, str]:
    """The output without what depends on other keys (A18), and with the key."""
    return {name: call for name, call in output.items() if not call.startswith(OF_ALL_KEYS)} | {"key": "First(k)"}


def _partitioned(window: str) -> str:
    return re.sub(r", partitioned.*", "", window) + ", partitioned"


kinds_of_time = st.sampled_from([None, *sorted(event_strategies.TYPES)])
sessions = over_event_time(kinds_of_time.flatmap(session_strategies.operators))


#: random operators, and the oracle of each
OPERATORS: dict[str, tuple[st.SearchStrategy[dict[str, Any]], Callable[[Case], Outcome]]] = {
    "windows by the clock": (by_the_clock(), lambda case: (oracle.run(case), None)),
    "windows over event time": (over_event_time(event_strategies.operators()), event_oracle.run),
    "sorts over event time": (over_event_time(event_strategies.sorts()), event_oracle.run),
    "sessions": (sessions, session_oracle.run),
    "dedups": (dedups(), dedup_oracle.run),
    "sorts by the clock": (sorts_by_the_clock(), lambda case: (join_oracle.run_sort(case), None)),
    "joins": (joins(), lambda case: (join_oracle.run_join(case), None)),
}


# ---- random events ---------------------------------------------------------------------------------------------------


def events_of(operator: dict[str, Any], choose: random.Random, keys: int) -> list[dict[str, Any]]:
    """Rounds in which most keys have a tuple; between the rounds the clock moves, and marks or watermarks come. Sets
    the schemas of the operator.
    """
    names = sorted(_read_by(operator) - {"k", "e"})
    one_of = {name: choose.choice(ONE_OF) for name in names if choose.random() < 0.8}
    if "event_time" in operator and choose.random() < 0.5:
        one_of["e"] = 5
    schemas = _schemas(operator, names)
    operator |= {key: {name: of + "?" * (name in one_of) for name, of in one.items()} for key, one in schemas.items()}
    quarters, newest = 0, choose.choice(event_strategies.STARTS)
    events: list[dict[str, Any]] = []
    for _ in range(choose.choice([2, 4, 6, 9])):
        quarters += choose.choice([0, 1, 2, 4, 7, 30])
        newest += choose.choice(event_strategies.STEPS)
        for key in range(keys):
            if choose.random() < 0.8:
                port, schema = choose.choice([*schemas.items()])
                values = {name: _value(name, choose, one_of) for name in schema if name not in "ke"}
                if "e" in schema:
                    time = newest - choose.choice([0, 0, 0, 1, 500, 3_000])
                    absent = "e" in one_of and choose.randrange(one_of["e"]) == 0
                    values["e"] = None if absent else event_strategies.shown(time, schema["e"])
                side = {"port": port.removeprefix("schema_")} if len(schemas) > 1 else {}
                events.append({"at": quarters / 4, "tuple": {**values, "k": f"key {key}"}} | side)
        if "event_time" in operator and choose.random() < 0.6:
            events.append({"at": quarters / 4, "watermark": (newest - choose.choice([0, 1_000, 4_000])) / 1000})
        elif len(schemas) == 1 and choose.random() < 0.3:
            events.append({"at": quarters / 4, "punct": "window"})
    end = [{"watermark": (newest + 60_000) / 1000}] if "event_time" in operator else []
    return [*events, *({"at": quarters / 4 + 60} | last for last in [{}, *end])]


def _schemas(operator: dict[str, Any], names: list[str]) -> dict[str, dict[str, str]]:
    """The types of what each input has, all without null, by the key of the operator."""
    if operator["kind"] == "join":
        return {"schema_left": join_strategies.LEFT, "schema_right": join_strategies.RIGHT}
    own = {"e": operator["schema"]["e"].rstrip("?")} if "event_time" in operator else {}
    return {"schema": {name: SCHEMA[name] for name in names} | {"k": "string"} | own}


def _value(name: str, choose: random.Random, one_of: dict[str, int]) -> Any:
    absent = name in one_of and choose.randrange(one_of[name]) == 0
    return None if absent else choose.choice(VALUES["i" if name == "i2" else name])


def _read_by(operator: dict[str, Any]) -> set[str]:
    if operator["kind"] == "join":
        return {*join_strategies.RIGHT}
    if operator["kind"] == "aggregate":
        words = re.findall(r"\b[a-z]\b", " ".join([operator["window"], *operator["output"].values()]))
        return {*words, *operator["partition_by"], *operator["group_by"]} & SCHEMA.keys()
    ordered = [name for name, _ in operator.get("order_by", ())] + re.findall(r"\b[a-z]\b", operator.get("window", ""))
    return {*operator.get("partition_by", ()), *operator.get("by", ()), *ordered, "i", "s"} & SCHEMA.keys()


# ---- comparing -------------------------------------------------------------------------------------------------------


def check(
    operator: dict[str, Any], number: int, of: Callable[[Case], Outcome], keys: int = KEYS
) -> int:  # fmt: skip
    """Compares each key of a run. Returns the number of keys. Raises AssertionError at the first difference."""
    choose = random.Random(number)
    events = events_of(operator, choose, keys)
    case: Case = {"operator": operator, "input": events, "limits": CLEANED_EARLY, "dead_letters": True}
    cuts = [choose.randrange(len(events)) for _ in range(choose.choice([0, 1, 3]))]
    tuples, dead = _by_key(run_case(case, cuts))
    for key, own in _inputs(events).items():
        expected, dropped = of({"operator": operator, "input": own})
        results = [_row(record) for record in expected if "tuple" in record]
        free = bool(operator.get("group_by")) or operator["kind"] == "join"  # groups, and streams of a join
        difference = _difference(tuples[key], results, in_any_order=free)
        wrong = dropped is not None and len(dropped) != dead[key]
        if difference or wrong:
            difference = difference or f"got {dead[key]} dead letters\nexpected {dropped}"
            raise AssertionError(f"{difference}\n{operator}\n{own}")
    return keys


def _by_key(records: list[Record]) -> tuple[dict[str, list[Any]], dict[str, int]]:
    """The tuples of each key in the output, and the number of its dead letters."""
    tuples: dict[str, list[Any]] = defaultdict(list)
    dead: dict[str, int] = defaultdict(int)
    for record in records:
        if "tuple" in record:
            row = record["tuple"]
            tuples[next(filter(None, map(row.get, ("key", "k", "lk", "rk"))))].append(_row(record))
        elif "dead_letter" in record:
            dead[record["dead_letter"]["tuple"]["k"]] += 1
    return tuples, dead


def _row(record: Record) -> Record:
    """The tuple of a record, with its stream if there are several."""
    return record["tuple"] | ({"stream": record["stream"]} if record.get("stream", "output") != "output" else {})


def _inputs(events: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The events of each key: its tuples, and all events that are none."""
    keys = {event["tuple"]["k"] for event in events if "tuple" in event}
    inputs: dict[str, list[dict[str, Any]]] = {key: [] for key in sorted(keys)}
    for event in events:
        for key in [event["tuple"]["k"]] if "tuple" in event else inputs:
            inputs[key].append(event)
    return inputs


def _difference(got: list[Any], expected: list[Any], *, in_any_order: bool) -> str:
    left = list(got)
    for wanted in expected:
        place = next((at for at, row in enumerate(left) if equal(row, wanted)), None) if in_any_order else 0
        if place is None or not left or not equal(left[place], wanted):
            return f"got {got}\nexpected {expected}"
        del left[place]
    return f"got {got}\nexpected {expected}" if left else ""


# ---- many runs -------------------------------------------------------------------------------------------------------


def runs(kind: str, number: int, count: int, keys: int = KEYS) -> Iterator[int]:
    """The number of cases of each of `count` runs."""
    operators, of = OPERATORS[kind]
    ran: list[int] = []

    @seed(number)
    @given(operators, st.integers(0, 2**32))
    @settings(
        max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )  # fmt: skip
    def run(operator: dict[str, Any], tuples: int) -> None:
        ran.append(check(operator, tuples, of, keys))

    run()
    return iter(ran)


def fuzz(cases: int, number: int) -> None:
    """Runs at least so many cases, a round of each kind after the other, and prints counts and processor time."""
    counts = dict.fromkeys(OPERATORS, 0)
    while sum(counts.values()) < cases:
        for kind in OPERATORS:
            number += 1
            counts[kind] += sum(runs(kind, number, 10))
            shown = ", ".join(f"{one} {count}" for one, count in counts.items())
            print(f"{sum(counts.values())} cases ({shown}), {time.process_time():.0f} s of processor time", flush=True)  # noqa: T201


if __name__ == "__main__":
    fuzz(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else random.getrandbits(32))
