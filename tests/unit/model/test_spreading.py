"""By what an input may be spread over buckets."""

from __future__ import annotations

import pytest

from sluice.config.load import load_text
from sluice.model.spreading import spread_by
from sluice.model.unparse import expressions

PIPELINE = """
pipeline: p
streams:
  input: {{topic: input, schema: {{k: string, g: string}}}}
  output: {{topic: output}}
operators:
  - name: o
    aggregate: input
    window: {window}, partitioned
    partition_by: [k]
    group_by: {groups}
    output: {{output: {{n: {call}}}}}
"""


PANES = "timeInterval, intervalDuration(10)"


@pytest.mark.parametrize(
    ("window", "call", "spread"),
    [
        (f"{PANES}, discardAge(5)", "intervalStart()", True),
        (f"{PANES}, discardAge(5)", "paneIndex()", False),
        (f"{PANES}, discardAge(5)", "paneTiming()", False),
        (PANES, "paneIndex()", True),
    ],
)
def test_what_counts_the_firings_of_a_pane_needs_one_bucket_only_if_panes_fire_again(
    window: str, call: str, *, spread: bool
):
    """E29 over all partitions; E26."""
    text = PIPELINE.replace("schema: {{k: string", "event_time: ts, schema: {{ts: int64, k: string")
    pipeline = load_text(text.format(window=window, groups="[]", call=call), "p", environment=None)
    assert (spread_by(pipeline) is not None) == spread


DEDUP = """
pipeline: p
streams:
  input: {{topic: input, event_time: ts, schema: {{ts: int64, k: string, g: string}}}}
  unique: {{}}
  output: {{topic: output}}
operators:
  - {{name: d, dedup: input, by: {by}, within: {within}, keep: {keep}, output: [unique]}}
  - {{name: o, aggregate: unique, window: "{window}, partitioned", partition_by: [k],
     output: {{output: {{n: Count()}}}}}}
"""


@pytest.mark.parametrize(
    ("by", "within", "keep", "window", "key"),
    [
        ("[k]", "time(1)", "first", "tumbling, count(2)", "k"),
        ("[k, g]", "time(1)", "first", "tumbling, count(2)", "k"),  # equal keys have equal k
        ("[g]", "time(1)", "first", "tumbling, count(2)", None),
        ("[k, g]", "time(1)", "last", "tumbling, count(2)", None),  # periods that end together: by the whole key
        ("[k]", "time(1)", "last", "tumbling, count(2)", "k"),
        ("[k]", "eventTime(1)", "last", "tumbling, count(2)", None),  # periods that end at one watermark: in order
        ("[k]", "eventTime(1)", "last", "timeInterval, intervalDuration(10)", "k"),
    ],
)
def test_the_key_of_a_dedup_and_of_a_window_behind_it(by: str, within: str, keep: str, window: str, key: str | None):
    pipeline = load_text(DEDUP.format(by=by, within=within, keep=keep, window=window), "p", environment=None)
    found = spread_by(pipeline)
    assert (None if found is None else expressions(found["input"])) == key


@pytest.mark.parametrize(
    ("window", "groups", "call", "spread"),
    [
        ("sliding, count(2)", "[]", "Count()", True),
        ("sliding, count(2)", "[]", "CountAll()", False),
        ("sliding, time(2)", "[g]", "CountAll() - Count()", False),
        ("tumbling, count(2)", "[]", "CountAll()", True),
        ("sliding, count(2)", "[]", "CountByGroup()", False),
        ("sliding, count(2)", "[g]", "CountByGroup()", True),
    ],
)
def test_what_counts_all_partitions_needs_one_bucket(window: str, groups: str, call: str, *, spread: bool):
    pipeline = load_text(PIPELINE.format(window=window, groups=groups, call=call), "p", environment=None)
    assert (spread_by(pipeline) is not None) == spread


ELEMENTS = """
pipeline: p
streams:
  orders: {{topic: orders, schema: {{id: string, items: "list<string>"}}}}
  parts: {{topic: parts}}
  counts: {{topic: counts}}
operators:
  - {{name: apart, map: orders, each: items as item, output: {{parts: {{id: id, item: item}}}}}}
  - name: count
    aggregate: parts
    window: sliding, count(3), partitioned
    partition_by: [{key}]
    output: {{counts: {{n: Count()}}}}
"""


@pytest.mark.parametrize(("key", "spread"), [("id", "id"), ("item", None), ("id, item", None)])
def test_an_element_of_a_list_is_no_key_of_the_input(key: str, spread: str | None):
    """An order with several items would be in several buckets."""
    found = spread_by(load_text(ELEMENTS.format(key=key), "p", environment=None))
    assert (None if found is None else expressions(found["orders"])) == spread


@pytest.mark.parametrize(
    ("key", "window", "spread"),
    [("[id]", "[id]", "id"), ("[id, name]", "[id]", "id"), ("[name]", "[id]", None), ("[id]", "[before]", None)],
)
def test_the_key_of_earlier_tuples_and_of_a_window_behind_them(key: str, window: str, spread: str | None):
    text = f"""
pipeline: p
streams:
  in: {{topic: in, schema: {{id: string, name: string}}}}
  moves: {{topic: moves}}
  counts: {{topic: counts}}
operators:
  - {{name: move, map: in, partition_by: {key}, output: {{moves: {{id: id, before: previous(name)}}}}}}
  - name: count
    aggregate: moves
    window: sliding, count(3), partitioned
    partition_by: {window}
    output: {{counts: {{n: Count()}}}}
"""
    found = spread_by(load_text(text, "p", environment=None))
    assert (None if found is None else expressions(found["in"])) == spread
