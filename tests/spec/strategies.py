"""Random operators and events for the comparison with the oracle: few of everything, so that things meet."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from typing import Any

from hypothesis import strategies as st

Case = dict[str, Any]

SCHEMA = {
    "k": "string", "n": "int64", "g": "string", "b": "boolean",
    "i": "int64", "f": "float64", "s": "string", "t": "timestamp", "v": "list<float64>", "w": "list<int64>",
    "d": "decimal(2)", "p": "decimal(30, 9)", "m": "map<string, float64?>",
    "z": "tuple<a: int64, t: timestamp?, c: decimal(2), l: list<string?>>",
}  # fmt: skip
LARGEST, SMALLEST = 2**63 - 1, -(2**63)
VALUES: dict[str, list[Any]] = {
    "k": ["", "a", "b", "ab", "é", "\U0001f600"],
    "n": [0, 1, 2, 10, -1],
    "g": ["u", "v", ""],
    "b": [True, False],
    "i": [0, 1, 2, 3, 5, 8, 13, -1, -4, LARGEST, SMALLEST],
    "f": [0.0, -0.0, 0.5, 1.0, 2.5, 4.0, -3.5, 0.1, 1e15, 1e300, -1e300, 1.7e308, -1.7e308, 1e-300,
          math.nan, math.inf, -math.inf],
    "s": ["", "x", "xy", "y", "Z", "ß", "\U0001f600", "long enough to be stored apart from short ones"],
    "t": ["1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000001Z", "1969-12-31T23:59:58Z", "1970-01-01T00:00:01.5Z",
          "2013-01-01T05:15:00Z", "1700-01-01T00:00:00Z", "2262-01-01T00:00:00Z"],
    "v": [[0.5, 0.1], [-0.0, math.nan], [math.inf, 1e300], [2.5, -1.0], [1e15, 0.0], [1e15, -0.0]],
    "w": [[0, 1], [LARGEST, SMALLEST], [3, -4], [-1, LARGEST]],
    "d": ["0", "0.05", "-0.05", "1", "2.50", "12.5", "-300.01", "9999999999999999.99", "-9999999999999999.99"],
    "p": ["0", "0.000000001", "-1.5", "2.50", "123456789012345678901.123456789", "-999999999999999999999.999999999"],
    "m": [{}, {"a": 1.0}, {"b": None, "a": 0.5}, {"é": math.nan}, {"a": -0.0, "": math.inf}],
    "z": [
        {"a": 1, "t": None, "c": "2.50", "l": []},
        {"a": 1, "t": "2013-01-01T05:15:00Z", "c": "-0.01", "l": ["x", None]},
        {"a": LARGEST, "c": "2.5", "l": [None]},
        {"a": 1, "t": None, "c": "2.5", "l": []},
    ],
}  # fmt: skip
CALLS = [
    "Count()", "Sum(i)", "Sum(f)", "Sum(s)", "Average(i)", "Average(f)",
    *(f"{function}({v})" for function in ("Min", "Max") for v in "ifstb"),
    *(f"{function}({v}, {w})" for function in ("ArgMin", "ArgMax") for v in "ifst" for w in "isft"),
    *(f"{function}({v}, {w})" for function in ("ArgMinLast", "ArgMaxLast", "FirstBy", "LastBy") for v in "ifsn"
      for w in "ifsn"),
    *(f"{function}({v})" for function in ("First", "Last", "Any", "Collect") for v in "ifstbkvw"),
    *(f"{function}({v}, {n})" for function in ("First", "Last", "Collect") for v in "is" for n in (1, 2, 5)),
    *(f"{function}({v})" for function in ("Sum", "Average", "Min", "Max") for v in "vw"),
    *(f"{function}({v})" for function in ("MinCount", "MaxCount") for v in "ifstb"),
    *(f"{function}({v}, {w})" for function in ("CollectArgMin", "CollectArgMax") for v in "ifs" for w in "isf"),
    *(f"{function}({v})" for function in ("CountDistinct", "CollectDistinct", "CountByDistinct") for v in "ifstbvw"),
    *(f"{function}(s, 2)" for function in ("CollectDistinct", "CountByDistinct")),
    *(f"{function}({v})" for function in ("PopulationStdDev", "SampleStdDev", "Median") for v in "f"),
    *(f"{function}(f, {share})" for function in ("Percentile", "ApproxPercentile")
      for share in ("0.0", "0.25", "0.95", "1.0")),
    *(f"{function}({v}, {n})" for function in ("MinN", "MaxN") for v in "ifstb" for n in (1, 3)),
    *(f"{function}({w}, {v}, 2)" for function in ("CollectMinN", "CollectMaxN") for v in "ifs" for w in "iv"),
    "CountAll()", "CountGroups()", "CountByGroup()",
    *(f"{function}({v}{n}, where: {condition})" for condition in ("b", "i > 2", "12 % i == 0", "isPresent(s)")
      for function, v, n in (
          ("Sum", "f", ""), ("Average", "i", ""), ("Min", "s", ""), ("Max", "f", ""), ("First", "f", ""),
          ("Last", "s", ""), ("Any", "i", ""), ("Last", "i", ", 2"), ("Collect", "v", ""), ("CountDistinct", "s", ""),
          ("Sum", "v", ""), ("ApproxPercentile", "f", ", 0.25"), ("Percentile", "f", ", 0.95"),
          ("SampleStdDev", "f", ""), ("MaxCount", "i", ""),
          ("ArgMaxLast", "n", ", i"), ("LastBy", "i", ", n"), ("FirstBy", "s", ", n"),
          ("ArgMax", "f", ", s"), ("ArgMin", "s", ", i"), ("CollectArgMax", "i", ", s"), ("MaxN", "f", ", 3"),
          ("CollectMinN", "i", ", f, 2"), ("Count", "s", ""), ("CountByDistinct", "b", ""), ("FirstPresent", "t", ""),
      )),
    *(f"{function}(where: {condition})" for condition in ("b", "i > 2") for function in
      ("Count", "CountGroups", "CountByGroup")),
    "Count(d)", "Count(z)",
    *(f"{function}({v})" for function in ("Sum", "Average", "Min", "Max", "MinCount", "Median", "PopulationStdDev")
      for v in "dp"),
    *(f"{function}({v}, {w})" for function in ("ArgMin", "ArgMax", "CollectArgMax") for v in "dip" for w in "dpzm"),
    *(f"{function}({v})" for function in ("First", "Last", "Any", "Collect", "CountDistinct", "CollectDistinct",
      "CountByDistinct", "FirstPresent", "LastPresent") for v in "dpmz"),
    *(f"{function}({v}, 2)" for function in ("First", "Last", "Collect", "MinN", "MaxN", "Average") for v in "dp"),
    *(f"{function}(d, 0.95)" for function in ("Percentile", "ApproxPercentile")),
    *(f"{function}({w}, {v}, 2)" for function in ("CollectMinN", "CollectMaxN") for v in "dp" for w in "iz"),
]  # fmt: skip

keys = st.sampled_from([["k"], ["n"], ["b"], ["k", "n"], ["t"], ["f"], ["f", "k"], ["d"], ["p", "k"]])
groups = st.sampled_from([[], [], ["g"], ["b"], ["g", "n"], ["f"], ["d"]])
counts = st.integers(0, 5).map("count({})".format)
times = st.sampled_from(["0.5", "1", "1.5", "2", "7.25"]).map("time({})".format)
deltas = st.one_of(
    st.sampled_from([0, 1, 2, 5, LARGEST]).map("delta(i, {})".format),
    st.sampled_from([0.0, 0.5, 1.0, 2.5, 1e14]).map(lambda size: f"delta(f, {size:.1f})"),
    st.sampled_from(["0.0", "0.000000001", "1.5", "60.0"]).map("delta(t, {})".format),
    st.sampled_from(["0.00", "0.05", "2.5", "300.0"]).map("delta(d, {})".format),
    st.sampled_from(["delta(i, n)", "delta(f, f)", "delta(f, n)", "delta(t, f)", "delta(t, n)"]),
)
policies = st.one_of(counts, times, deltas)


#: clauses that can show what leaves with its partition
EVICTED = re.compile("tumbling.*(partitionAge|Count)")
leaving = st.one_of(
    st.just(""),
    st.sampled_from(["0", "1.9", "2", "30"]).map(", partitionAge({})".format),
    st.sampled_from([0, 1, 2, 3]).map(", partitionCount({})".format),
    st.sampled_from([0, 1, 3, 6]).map(", tupleCount({})".format),
)


@st.composite
def apart(draw: st.DrawFn, operators: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    """Operators with partitions that do not see each other: most of them may have several buckets."""
    operator = draw(operators)
    window = re.sub(", partitioned.*", "", operator["window"]) + ", partitioned"
    partition_by = operator["partition_by"] or draw(keys)
    schema = operator["schema"] | {name: SCHEMA[name] for name in partition_by}
    own = {"window": window, "partition_by": partition_by, "schema": schema, "aggregate_evicted_partitions": False}
    return operator | own


@st.composite
def conditions(draw: st.DrawFn) -> str:
    """One policy of a tumbling window, or several of different kinds."""
    chosen = draw(st.permutations([counts, times, deltas, st.just("punct()")]))
    return " or ".join(draw(one) for one in chosen[: draw(st.sampled_from([1, 1, 2, 2, 3, 4]))])


@st.composite
def windows(draw: st.DrawFn, partitioned: bool, evicting: st.SearchStrategy[str] | None = None) -> str:  # noqa: FBT001
    """`evicting`: how the windows evict if all are sliding."""
    end = ", partitioned" + draw(leaving) if partitioned else ""
    if evicting is None and draw(st.booleans()):
        return f"tumbling, {draw(conditions())}{end}"
    trigger = draw(st.one_of(st.just(""), policies.map(", {}".format)))
    return f"sliding, {draw(policies if evicting is None else evicting)}{trigger}{end}"


@st.composite
def operators(
    draw: st.DrawFn, evicting: st.SearchStrategy[str] | None = None, grouped: st.SearchStrategy[list[str]] = groups
) -> dict[str, Any]:
    partition_by = draw(st.one_of(st.just([]), keys))
    window = draw(windows(bool(partition_by), evicting))
    calls = draw(st.lists(st.sampled_from(CALLS), min_size=1, max_size=6, unique=True))
    if window.startswith("tumbling"):
        calls.append("flushReason()")
    return {
        "kind": "aggregate",
        "window": window,
        "partition_by": partition_by,
        "group_by": draw(grouped),
        "aggregate_incomplete_windows": window.startswith("sliding") and draw(st.booleans()),
        "aggregate_evicted_partitions": bool(EVICTED.search(window)) and draw(st.booleans()),
        "output": {f"o{n}": call for n, call in enumerate(["Collect(i)", *calls])},
        "schema": SCHEMA,
    }


marks = ["window"] * 8 + [None] * 4 + ["final"]
SOURCES = [0, 0, 0, 1, 2]
STEPS = [0, 0, 0, 1, 2, 4, 7, 30, 120]
lengths = st.sampled_from([3, 6, 12, 25, 40])


def choices(options: Mapping[str, Sequence[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """One of the options of each name, chosen by a byte. Smaller examples have earlier options.

    A draw takes 50 microseconds, whatever its size, and a draw for each name takes longer than the engine needs for
    the event. So all names together are one draw.
    """
    names = list(options.items())

    def chosen(row: bytes) -> dict[str, Any]:
        return {name: of_name[byte % len(of_name)] for byte, (name, of_name) in zip(row, names, strict=True)}

    return st.binary(min_size=len(names), max_size=len(names)).map(chosen)


def tuples(names: AbstractSet[str]) -> st.SearchStrategy[dict[str, Any]]:
    return _tuples(tuple(sorted(names)))


@cache
def _tuples(names: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    return choices({name: VALUES[name] for name in names})


#: what an event is: mostly a tuple; a mark; now and then only the clock moves
moments = choices({"step": STEPS, "is_tuple": [True] * 7 + [False], "mark": marks, "source": SOURCES})


@st.composite
def events(draw: st.DrawFn, names: AbstractSet[str] = frozenset(SCHEMA)) -> list[dict[str, Any]]:
    """Steps of the clock are quarters of a second, so that timers fall due at events, and tuples expire at them."""
    quarters = draw(st.sampled_from([0, 0, 3, -30]))
    rows = tuples(names)
    drawn = []
    for _ in range(draw(lengths)):
        moment = draw(moments)
        quarters += moment["step"]
        event = {"tuple": draw(rows)} if moment["is_tuple"] else punct(moment["mark"])
        drawn.append({"at": quarters / 4, **event, "topic_partition": moment["source"]})
    return drawn


def punct(mark: str | None) -> dict[str, Any]:
    return {"punct": mark} if mark else {}


def words_of(*texts: str) -> list[str]:
    """The attributes that are named in clauses and calls."""
    return re.findall(r"\b[a-z]\b", " ".join(texts))


def read_by(operator: dict[str, Any]) -> set[str]:
    """The attributes that an aggregate reads."""
    words = words_of(operator["window"], *operator["output"].values())
    return {*words, *operator["partition_by"], *operator["group_by"]}


#: attributes that an operator passes on and does not read: a few of all types
passed = st.sets(st.sampled_from(sorted(SCHEMA)), max_size=4)


def schema_of(*names: AbstractSet[str] | Sequence[str]) -> dict[str, str]:
    """The attributes of these names, and `i`."""
    return {name: kind for name, kind in SCHEMA.items() if name in {"i"}.union(*names)}


def narrowed(operator: dict[str, Any]) -> dict[str, Any]:
    """An aggregate whose schema has only what it reads, and `i`, so that it has something."""
    names = read_by(operator) | {"i", operator.get("event_time")}
    return operator | {"schema": {name: kind for name, kind in operator["schema"].items() if name in names}}


@st.composite
def cases(draw: st.DrawFn, of: st.SearchStrategy[dict[str, Any]] | None = None) -> Case:
    operator = narrowed(draw(operators() if of is None else of))
    return {"operator": operator, "input": draw(events(operator["schema"].keys()))}


cuts = st.lists(st.integers(0, 7), max_size=20)
