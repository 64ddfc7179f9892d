"""Spellings of values inside of structs and lists, as a pipeline file gives them (PA16, PA17)."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from sluice.columns.arrow_types import arrow_type
from sluice.config.load import load_text
from sluice.model.changes.definition_reader import pipeline_of
from sluice.model.errors import PipelineError
from sluice.model.fingerprint import plain
from sluice.model.types import parse_type
from sluice.testing import PipelineTest
from sluice.wire.record_codec import Records

FILE = """
pipeline: copies
streams:
  rows: {{topic: rows{more}, schema: {{x: {given}}}}}
  copies: {{topic: copies}}
operators:
  - {{name: copy, map: rows, output: {{copies: {{x: x}}}}}}
"""
MAP = '"map<string, string>"'
TAGS = [{"key": "b", "value": {"text": "x"}}, {"key": "a", "value": {"number": 7}}]


def read(given: str, value: object, more: str = "") -> object:
    """The value of `x` in the output, or the reason of the dead letter."""
    test = PipelineTest(FILE.format(given=given, more=more)).record("rows", json.dumps({"x": value}))
    return test.dead_letters[0]["reason"] if test.dead_letters else test.tuples("copies")[0]["x"]


@pytest.mark.parametrize(
    ("given", "value", "expected"),
    [
        ("{at: {type: timestamp, unit: ms}}", {"at": 1500}, {"at": "1970-01-01T00:00:01.5Z"}),
        ("[{type: timestamp, unit: ms}]", [1500], ["1970-01-01T00:00:01.5Z"]),
        ("{type: [{at: {type: timestamp, unit: s}}], from: x}", [{"at": 2}], [{"at": "1970-01-01T00:00:02Z"}]),
        ('{at: {type: timestamp, pattern: "%d.%m.%Y", zone: Europe/Berlin}}', {"at": "02.01.1970"},
         {"at": "1970-01-01T23:00:00Z"}),
        ("{n: {type: int64, coerce: true}, s: string}", {"n": "7.0", "s": "1.10"}, {"n": 7, "s": "1.10"}),
        ("[{n: {type: string, coerce: true}, m: int64}]", [{"n": 1.5, "m": 2}], [{"n": "1.5", "m": 2}]),
        ("{a: {b: {n: {type: int64?, coerce: true}}}}", {"a": {"b": {"n": "7"}}}, {"a": {"b": {"n": 7}}}),
        ("{a: {b: {n: {type: int64?, coerce: true}}}}", {"a": {"b": {}}}, {"a": {"b": {"n": None}}}),
        ("[{n: {type: int64?, coerce: true}, s: string}]", [{"n": "", "s": ""}], [{"n": None, "s": ""}]),
        ("[{type: string, unit: string}]", [{"type": "a", "unit": "b"}], [{"type": "a", "unit": "b"}]),
        ("{of: {type: string}}", {"of": {"type": "a"}}, {"of": {"type": "a"}}),
        (f"{{tags: {{type: {MAP}, pairs: {{key: key, value: value.text}}}}}}", {"tags": TAGS}, {"tags": {"b": "x"}}),
        (f"[{{type: {MAP}, pairs: {{key: key, value: [value.text, value.number]}}, coerce: true}}]", [TAGS, []],
         [{"a": "7", "b": "x"}, {}]),
    ],
)  # fmt: skip
def test_a_value_inside_has_its_own_spelling(given: str, value: object, expected: object):
    assert read(given, value) == expected


def test_a_value_beside_a_coerced_one_stays_strict():
    reason = read("{n: {type: int64, coerce: true}, s: string}", {"n": "7", "s": 7})
    assert reason.startswith('wrong type: x: expected tuple<n: int64, s: string>, got {"n":"7","s":7}; at x.s: ')


def test_a_value_inside_is_coerced_as_the_stream_is_unless_it_says_otherwise():
    given = "{n: {type: string, coerce: false}, m: string}"
    assert read(given, {"n": "a", "m": 7}, ", coerce: true") == {"n": "a", "m": "7"}
    assert str(read(given, {"n": 7, "m": 7}, ", coerce: true")).startswith("wrong type")


def test_a_value_inside_of_an_output_is_written_in_its_unit_or_by_its_pattern():
    text = FILE.format(given="[{at: timestamp, day: timestamp, end: timestamp}]", more="").replace(
        "{topic: copies}",
        '{topic: copies, schema: {x: [{at: {type: timestamp, unit: ms}, '
        'day: {type: timestamp, pattern: "%d.%m.%Y"}, end: timestamp}]}}',
    )  # fmt: skip
    stream = load_text(text, "copies.yaml").streams["copies"]
    day = 86_400 * 10**9
    rows = pa.array([[{"at": day, "day": day, "end": day}], []], arrow_type(parse_type(
        "list<tuple<at: timestamp, day: timestamp, end: timestamp>>")))  # fmt: skip
    written = Records.of(stream, {}).encode_values(pa.RecordBatch.from_arrays([rows], names=["x"])).to_pylist()
    assert written == [
        b'{"x":[{"at":86400000,"day":"02.01.1970","end":"1970-01-02T00:00:00Z"}]}', b'{"x":[]}',
    ]  # fmt: skip


def test_a_definition_with_spellings_inside_comes_back():
    pipeline = load_text(
        FILE.format(given=f"{{tags: {{type: {MAP}, pairs: {{key: key, value: [a.b, c]}}}}}}", more=""), "p"
    )
    definition = json.loads(json.dumps(plain(pipeline)))
    assert pipeline_of(definition, pipeline.settings).streams["rows"].members == pipeline.streams["rows"].members


@pytest.mark.parametrize(
    "pairs",
    [
        "{key: null, value: v}",
        "{key: k, value: [v, {a: b}]}",
        "{key: k, value: []}",
        f"{{key: {'k' * 5000}, value: v}}",
    ],
)
def test_pairs_that_are_none_are_a_problem_of_the_file(pairs: str):
    with pytest.raises(PipelineError):
        load_text(FILE.format(given=f"{{tags: {{type: {MAP}, pairs: {pairs}}}}}", more=""), "p")
    with pytest.raises(PipelineError):
        load_text(FILE.format(given=f"{{type: {MAP}, pairs: {pairs}}}", more=""), "p")
