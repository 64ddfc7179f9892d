"""Records of a replay in a story: tuples, marks, deletions and rejected records, as the service decodes them."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from sluice.config.load import load_text
from sluice.pictures import labels
from sluice.pictures.story_builder import build_story

FILE = """
pipeline: p
streams:
  numbers: {topic: numbers, schema: {x: int64, name: string}, marks_in: topic_partition}
  out: {topic: out}
operators:
  - {name: sum, aggregate: numbers, window: "WINDOW", output: {out: {x: Sum(x)}}}
"""


def arrivals(*records: dict[str, Any]) -> list[tuple[str, str]]:
    """Of each event a few letters, and its text."""
    events = [{"at": number, "record": record} for number, record in enumerate(records)]
    built = build_story(load_text(FILE.replace("WINDOW", "tumbling, count(2)"), "p.yaml"), events)
    return [(labels.marble(step.event), labels.arrival(step.event)) for step in built.steps if step.event is not None]


@pytest.mark.parametrize(
    ("record", "label", "text"),
    [
        ({"value": {"x": 1, "name": "a"}}, "1·a", "x=1 name=a"),
        ({"value": '{"x": 1, "name": "a"}', "key": "k"}, "1·a", "x=1 name=a"),
        ({"value": {"base64": b64encode(b'{"x":1,"name":"a"}').decode()}}, "1·a", "x=1 name=a"),
        ({"value": {"x": 1, "name": "a"}, "headers": {"sluice-mark": "window"}}, "1·a", "x=1 name=a ■"),
        ({"value": "", "headers": {"sluice-mark": "window"}}, "■ window…", "■ window mark"),
        ({"value": "not JSON"}, "✕", "✕ not JSON"),
        ({"value": {"x": "one"}}, "✕", '✕ {"x": "one"}'),
    ],
    ids=["object", "text", "bytes", "with a mark", "mark", "not JSON", "wrong type"],
)
def test_a_record_is_shown_decoded(record: dict[str, Any], label: str, text: str):
    assert arrivals(record) == [(label, text)]


def test_a_record_is_in_its_window_as_a_tuple_is():
    file = load_text(FILE.replace("WINDOW", "session, inactivityGap(5)"), "p.yaml")
    tuples, records = (
        build_story(file, [{"at": at, what: content} for at in (0, 1, 20)])
        for what, content in (("tuple", {"x": 1, "name": "a"}), ("record", {"value": {"x": 1, "name": "a"}}))
    )
    labelled = [
        [[[chip.label for chip in change.inside] for change in step.changes] for step in built.steps]
        for built in (tuples, records)
    ]
    assert labelled[0] == labelled[1]
    assert labelled[0][0] == [["1·a"]]
