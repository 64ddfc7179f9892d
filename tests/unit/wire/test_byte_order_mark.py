"""A byte order mark at the start of a text is dropped: it is no part of the first field."""

from __future__ import annotations

import json
from codecs import BOM_UTF8

import pyarrow as pa
import pytest

from sluice.config.load import load
from sluice.draft.sampled_records import Sampled, sample
from sluice.model.secrets import contents
from sluice.model.spec import Coding, FormatOptions
from sluice.model.types import INT64, STRING
from sluice.replayer.event_file import read
from sluice.replayer.player import replay
from sluice.wire.formats.csv_format import CsvOptions
from sluice.wire.formats.format_contract import Part
from sluice.wire.formats.format_table import codec
from sluice.wire.json.json_batch import decode_scannable
from tests.unit.wire.test_csv_and_text import decoded, row, why

PAIR = (("a", STRING), ("n", INT64))
MARK = BOM_UTF8.decode()


@pytest.mark.parametrize(
    ("form", "schema", "text", "values"),
    [
        ("csv", PAIR, "x,1", ["x", 1]),
        ("csv", PAIR, '"x",1', ["x", 1]),
        ("csv", PAIR[1:], "7", [7]),
        ("csv", PAIR, f"{MARK}x,1", [f"{MARK}x", 1]),
        ("text", PAIR[:1], "x", ["x"]),
        ("text", PAIR[:1], "", [""]),
        ("text", PAIR[1:], "7", [7]),
        ("json", PAIR, '{"a": "x", "n": 1}', ["x", 1]),
        ("json", PAIR, ' {"a": "x", "n": 1} ', ["x", 1]),
        ("json", PAIR, '{"\\u0061": "x", "n": 1}', ["x", 1]),
    ],
)
def test_a_mark_before_a_value_is_dropped(form, schema, text, values):
    assert row(form, schema, BOM_UTF8 + text.encode()) == values


def test_a_mark_behind_the_start_is_a_character():
    assert row("csv", PAIR, f"x{MARK},1".encode()) == [f"x{MARK}", 1]
    assert row("json", PAIR, f'{{"a": "{MARK}x", "n": 1}}'.encode()) == [f"{MARK}x", 1]


def test_a_value_that_is_only_a_mark_is_empty():
    assert why("csv", PAIR, BOM_UTF8) == "no value: expected a row of CSV, got nothing"
    assert why("json", PAIR, BOM_UTF8) == "no value: expected a JSON object, got nothing"


def test_other_values_of_the_batch_keep_their_first_character():
    found = decoded("csv", PAIR, BOM_UTF8 + b"x,1", b"y,2", b"\xff,3", BOM_UTF8 + b"z,4")
    assert found.tuples.column(0).to_pylist() == ["x", "y", "z"]
    assert [number for number, _ in found.bad] == [2]


def test_the_scanner_needs_no_second_decoder():
    _, sure = decode_scannable(pa.array([BOM_UTF8 + b'{"a":"x","n":1}', BOM_UTF8, b"\xef\xbb{}"]), PAIR)
    assert sure.tolist() == [True, False, False]


@pytest.mark.parametrize("form", ["csv", "text"])
def test_a_text_that_begins_with_a_mark_is_read_as_it_was_written(form):
    options = CsvOptions() if form == "csv" else FormatOptions()
    coder = codec(Part(Coding(form, options), PAIR[:1], {}))
    texts = [f"{MARK}x", f"{MARK}{MARK}", "x", f"x{MARK}"]
    encoded = coder.encode(pa.record_batch({"a": texts}))
    assert coder.decode(encoded).tuples.column(0).to_pylist() == texts


PIPELINE = """
pipeline: p
streams:
  ticks: {topic: ticks, format: avro, avro_schema: tick.avsc}
  out: {topic: out, format: json}
operators:
  - {name: count, aggregate: ticks, window: "tumbling, count(2)", output: {out: {n: Count()}}}
"""


def test_files_may_begin_with_a_mark(tmp_path):
    schema = {"type": "record", "name": "T", "fields": [{"name": "x", "type": "long"}]}
    (tmp_path / "tick.avsc").write_bytes(BOM_UTF8 + json.dumps(schema).encode())
    (tmp_path / "p.yaml").write_bytes(BOM_UTF8 + PIPELINE.encode())
    events = tmp_path / "events.jsonl"
    lines = [{"at": n, "stream": "ticks", "tuple": {"x": n}} for n in (1, 2)]
    events.write_bytes(BOM_UTF8 + "\n".join(map(json.dumps, lines)).encode())
    pipeline = load(tmp_path / "p.yaml", environment=None)
    assert [event for _, event in read(events)] == lines
    assert [record["tuple"] for record in replay(pipeline, events) if "tuple" in record] == [{"n": 2}]


def test_a_secret_in_a_file_is_the_text_without_the_mark(tmp_path):
    (tmp_path / "password").write_bytes(BOM_UTF8 + b"secret\n")
    assert contents(str(tmp_path / "password")) == "secret"


def test_a_draft_of_records_with_a_mark():
    found = sample("t", [Sampled(BOM_UTF8 + b'{"a": "x", "n": 1}', None)], {})
    assert [one.name for one in found.attributes] == ["a", "n"]
