"""The state of a graph whose inputs have other names in the changed file, or are others."""

from __future__ import annotations

from typing import Any

import numpy as np

from sluice.config.load import load_text
from sluice.engine.graph import Clock, Graph, GraphState
from sluice.engine.graph_conversion import converted
from sluice.engine.stream.items import TUPLE, WATERMARK
from sluice.engine.stream.rejected_tuples import REJECTS
from sluice.engine.windows.event_time.watermark_tracker import SOURCE, Progress
from sluice.model.changes.operator_changes import StateOutcome, changes_of, kept_of
from sluice.model.spec import Pipeline
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import numbered

FILE = """
pipeline: p
streams:
  source: {topic: topic, schema: {t: timestamp}, event_time: {attribute: t, lag: 0}}
  out: {topic: out}
operators:
  - {name: panes, aggregate: source, window: "timeInterval, intervalDuration(60.0)", output: {out: {n: Count()}}}
"""


def test_an_input_with_another_name_keeps_its_watermark_and_its_final_topic_partitions():
    old, new = (load_text(text, "p.yaml") for text in (FILE, FILE.replace("source", "other")))
    before, after = Graph(old, {"source": 2, "out": 1}), Graph(new, {"other": 2, "out": 1})
    state = before.initial()
    state.finals["source"] = {1}
    state.progress["source"] = Progress(7, np.zeros(2, SOURCE))
    made = converted(before, state, after, kept_of(old, new))
    assert made.finals == {"other": {1}}
    assert {name: of.watermark for name, of in made.progress.items()} == {"other": 7}


ENDED = """
pipeline: p
clock: records
clock_origin: 1970-01-01T00:00:00Z
streams:
  first: {topic: first, schema: {x: int64, t: timestamp, u: timestamp}, event_time: t}
  second: {topic: second, schema: {x: int64, t: timestamp, u: timestamp}, event_time: t}
  side: {topic: side, schema: {y: int64, t: timestamp}, event_time: t}
  mid: {event_time: t}
  counts: {topic: counts}
  panes: {topic: panes}
  pairs: {topic: pairs}
  near: {topic: near}
operators:
  - {name: pass, map: first, output: {mid: {x: x, t: t}}}
  - {name: counts, aggregate: mid, window: "tumbling, count(2)", output: {counts: {all: Collect(x)}}}
  - {name: panes, aggregate: mid, window: "timeInterval, intervalDuration(10)", output: {panes: {all: Collect(x)}}}
  - name: pairs
    join: {left: mid, right: side}
    window_left: sliding, count(2)
    window_right: sliding, count(2)
    output: {pairs: {x: left.x, y: right.y}}
  - name: near
    join: {left: mid, right: side}
    window: interval, before(100), after(100)
    output: {near: {x: left.x, y: right.y}}
"""


def fed(pipeline: Pipeline, state: GraphState, at: int, *events: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """The tuples of each output, and the watermarks of `pairs`."""
    given = [{"at": at + number} | event for number, event in enumerate(events)]
    batch = Cutter(pipeline.inputs).batch(list(numbered(given)))
    made = graph_of(pipeline).feed(state, batch.inputs, Clock(int(batch.at[0]), int(batch.at[-1])))
    names = [stream.name for stream in pipeline.outputs]
    tuples = {name: made[name].tuples.to_pylist() for name in names if name in made and TUPLE in made[name].kind}
    pairs = made.get("pairs")
    marks = [] if pairs is None else (pairs.watermark[pairs.kind == WATERMARK] // 10**9).tolist()
    return tuples | ({REJECTS: True} if REJECTS in made else {}), marks


def graph_of(pipeline: Pipeline) -> Graph:
    return Graph(pipeline, {stream.name: 1 for stream in pipeline.streams.values() if stream.topic})


def time(second: int) -> str:
    return f"1970-01-01T00:00:{second:02}Z"


def test_a_final_mark_of_a_topic_that_is_not_read_any_more_does_not_end_the_operators_behind_a_map():
    """They would drop everything. Those with one input begin anew, and a join goes on with the tuples of both sides."""
    old, new = (load_text(text, "p.yaml") for text in (ENDED, ENDED.replace("map: first", "map: second")))
    assert {one.word for one in changes_of(old, new).all} == {StateOutcome.KEPT}
    state = graph_of(old).initial()
    fed(
        old, state, 0,
        {"stream": "first", "tuple": {"x": 1, "t": time(1), "u": time(1)}},
        {"stream": "side", "tuple": {"y": 7, "t": time(2)}},
        {"stream": "first", "punct": "final"},
    )  # fmt: skip
    state = converted(graph_of(old), state, graph_of(new), kept_of(old, new))
    tuples = [{"stream": "second", "tuple": {"x": x, "t": time(x), "u": time(x)}} for x in (3, 4)]
    found, _ = fed(new, state, 10, *tuples, {"stream": "second", "watermark": time(15)})
    pairs = [{"x": x, "y": 7} for x in (3, 4)]
    assert found == {"counts": [{"all": [3, 4]}], "panes": [{"all": [3, 4]}], "pairs": pairs, "near": pairs}


def test_a_join_forgets_the_watermarks_of_another_event_time():
    """The watermarks of its output would be ahead of its tuples."""
    text = (
        ENDED[: ENDED.index("  - name: near")].replace("map: first", "map: second").replace("left: mid", "left: first")
    )
    text = text.replace("  near: {topic: near}\n", "").replace("{topic: pairs}", "{topic: pairs, event_time: t}")
    text = text.replace("{x: left.x, y: right.y}", "{x: left.x, y: right.y, t: left.t}")
    old, new = (load_text(one, "p.yaml") for one in (text, text.replace("event_time: t}", "event_time: u}", 1)))
    assert {str(one.word) for one in changes_of(old, new).all if one.name == "pairs"} == {"kept"}
    state = graph_of(old).initial()
    marks = [{"stream": name, "watermark": time(30)} for name in ("first", "side")]
    assert fed(old, state, 0, *marks)[1] == [30]
    state = converted(graph_of(old), state, graph_of(new), kept_of(old, new))
    marks = [{"stream": "side", "watermark": time(40)}, {"stream": "first", "watermark": time(10)}]
    assert fed(new, state, 10, *marks)[1] == [10]


DAYS = """
pipeline: p
clock: records
clock_origin: 1970-01-01T00:00:00Z
streams:
  days: {topic: days, schema: {x: int64}, marks_in: aligned}
  lists: {topic: lists}
operators:
  - {name: lists, aggregate: days, window: "tumbling, punct()", output: {lists: {all: Collect(x)}}}
"""


def test_marks_stay_aligned_where_tuples_that_wait_for_them_are_lost():
    """Topic partition 0 is a mark ahead. Without this mark it would be one ahead for ever."""
    old, new = (load_text(text, "p.yaml") for text in (DAYS, DAYS.replace("x: int64", "x: int64, y: string")))
    graphs = [Graph(one, {"days": 2, "lists": 1}) for one in (old, new)]
    state = graphs[0].initial()

    def fed_days(number: int, *events: tuple[int, int | str]) -> list[list[int]]:
        rows = [
            {"at": 0, "topic_partition": place}
            | ({"punct": what} if isinstance(what, str) else {"tuple": {"x": what, "y": ""} if number else {"x": what}})
            for place, what in events
        ]
        batch = Cutter((old, new)[number].inputs).batch(list(numbered(rows)))
        made = graphs[number].feed(state, batch.inputs, Clock(0, 0))
        return [row["all"] for row in made["lists"].tuples.to_pylist()]

    assert fed_days(0, (0, 1), (0, "window"), (0, 2), (1, 3)) == []
    state = converted(graphs[0], state, graphs[1], kept_of(old, new))
    state = graphs[1].load(graphs[1].save(state))
    assert fed_days(1, (0, 4), (1, 5), (1, "window")) == [[1, 3, 5]]
    assert fed_days(1, (1, 6), (1, "window"), (0, 7), (0, "window")) == [[4, 6, 7]]
