"""An operator that reads a stream with objects sees them as structs (ST14)."""

import pytest

from sluice.columns.json_columns import python_values
from sluice.config.load import load_text
from sluice.model.errors import PipelineError
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import numbered
from sluice.replayer.player import Player

FILE = """
pipeline: p
streams:
  orders: {{topic: orders, schema: {{id: int64, city: string?, ts: timestamp}}}}
  mid: {{{mid}}}
  out: {{topic: out}}
operators:
  - {{name: a, map: orders, output: {{mid: {{meta: {{ts: ts, by: {{id: id, city: city}}}}, n: id}}}}}}
  - {operator}
"""
TUPLES = [{"id": 3, "city": None, "ts": "2024-01-01T00:00:00Z"}, {"id": 2, "city": "x", "ts": "2024-01-01T00:00:01Z"}]


def loaded(operator, mid="topic: mid"):
    return load_text(FILE.format(operator=operator, mid=mid), "p.yaml", environment={})


def results(operator, mid="topic: mid"):
    pipeline = loaded(operator, mid)
    events = list(numbered({"at": n, "stream": "orders", "tuple": values} for n, values in enumerate(TUPLES)))
    player = Player(pipeline, {"orders": 1}, python_values)
    batch = Cutter(pipeline.inputs).batch(events)
    return [r["tuple"] for r in player.feed(player.graph.initial(), batch) if r["stream"] == "out" and "tuple" in r]


@pytest.mark.parametrize("mid", ["topic: mid", ""])
@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("meta.by.id", [3, 2]),
        ("mid.meta.by.id", [3, 2]),
        ('meta["by"].city', [None, "x"]),
        ("meta.by", [{"id": 3, "city": None}, {"id": 2, "city": "x"}]),
        ("meta.by.id + n", [6, 4]),
    ],
)
def test_a_member_of_an_object_and_the_object(mid, expression, values):
    assert results(f"{{name: b, map: mid, output: {{out: {{x: '{expression}'}}}}}}", mid) == [{"x": v} for v in values]


@pytest.mark.parametrize(
    ("operator", "tuples"),
    [
        (("{name: b, aggregate: mid, window: 'sliding, count(1), partitioned', partition_by: [meta.by.id], "
          "output: {out: {last: Last(meta.by.city)}}}"), [{"last": None}, {"last": "x"}]),
        (("{name: b, aggregate: mid, window: 'sliding, delta(meta.by.id, 0), count(2)', "
          "output: {out: {ids: Collect(meta.by.id)}}}"), [{"ids": [3, 2]}]),
        ("{name: b, sort: mid, window: 'tumbling, count(2)', order_by: {meta.by.id: asc}, output: [out]}",
         [{"meta.ts": "2024-01-01T00:00:01Z", "meta.by.id": 2, "meta.by.city": "x", "n": 2},
          {"meta.ts": "2024-01-01T00:00:00Z", "meta.by.id": 3, "meta.by.city": None, "n": 3}]),
    ],
)  # fmt: skip
def test_windows_keys_and_orders(operator, tuples):
    assert results(operator) == tuples


def test_the_sides_of_a_join():
    join = (
        "{name: b, join: {left: mid, right: orders}, window_left: 'sliding, count(2)', window_right: "
        "'sliding, count(2)', equality_left: [meta.by.id], equality_right: [id], "
        "output: {out: {whole: left.meta.by, city: 'meta.by.city ?: right.city', id: right.id}}}"
    )
    assert results(join) == [
        {"whole": {"id": 3, "city": None}, "city": None, "id": 3},
        {"whole": {"id": 2, "city": "x"}, "city": "x", "id": 2},
    ]


def test_a_member_that_the_object_lacks():
    with pytest.raises(
        PipelineError, match=r"expected a member of meta.by \(id, city\), got .*did you mean meta.by.id"
    ):
        loaded("{name: b, map: mid, output: {out: {x: meta.by.ids}}}")
