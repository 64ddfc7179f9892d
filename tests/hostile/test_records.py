"""Records that would cost memory, time or the process, and texts that would fool who reads them."""

from __future__ import annotations

import json
import logging
from typing import Any
from xml.etree import ElementTree as ET

import pyarrow as pa
import pytest
from rich.console import Console

from sluice.config.load import load_text
from sluice.json_texts import DEEPEST, visible
from sluice.lab.lab_answer import answer
from sluice.ops.log_lines import JsonLines, Lines
from sluice.page.last_records import _dead_letter
from sluice.pictures.story_builder import build_story
from sluice.pictures.svg_drawing import drawing
from sluice.pictures.terminal_table import table
from sluice.replayer.player import replay
from sluice.wire.json.json_confluent import JsonConfluent
from sluice.wire.json.json_schema import check_comparisons
from tests.unit.wire.test_any_bytes import JSON, ORDINARY, SCHEMA

LONG = 1_000_000
#: the most characters of the reason of a dead letter that quotes its record
MOST = 400


def row(x: str = "1", more: str = "") -> bytes:
    return f'{{"k":"a","x":{x},"n":1,"t":1,"b":true,"l":[]{more}}}'.encode()


BOMBS = [
    ("json", "a list in a list, a million times", row(more=',"z":' + "[" * LONG), "not JSON: depth limit exceeded"),
    ("json", "an object in an object", row(more=',"z":' + '{"a":' * LONG), "not JSON: depth limit exceeded"),
    ("json", "more than a float64 holds", row("1e400"), "not JSON: number is infinity"),
    ("json", "a million digits", row("9" * LONG), "not JSON: number is infinity"),
    ("json", "an exponent of a thousand digits", row("1e" + "9" * 1000), "not JSON: number is infinity"),
    ("json", "a text of a megabyte", row(f'"{"a" * LONG}"'), 'wrong type: x: expected float64, got "aaaa'),
    ("json", "a name of a megabyte", row(f'{{"{"a" * LONG}":1}}'), "wrong type: x: expected float64, got {"),
    ("json", "a hundred thousand members", b"{%s}" % b",".join(b'"m%d":1' % n for n in range(10**5)), "missing attr"),
    ("csv", "a million fields", b",".join([b"1"] * LONG), "not CSV: expected 6 fields, got 1000000"),
    ("csv", "a quote that does not end", b'"' * (LONG + 1), "not CSV: unexpected end of data"),
    ("csv", "a number of a million digits", b"a,%s,1,1,true,[]" % (b"9" * LONG), "wrong type: x: expected float64"),
    ("text", "a number of a million digits", b"9" * LONG, "wrong type: x: expected float64"),
    ("avro", "the length of a text below zero", b"\x01", "not Avro: the length of a string, list or map is below zero"),
    ("avro", "a text of 2**62 bytes", b"\xfe" + b"\xff" * 8 + b"\x01", "not Avro: its bytes end in the middle"),
    ("avro of another schema", "a record in a record", b"\x00" + b"\x02" * LONG, "not Avro: its values are nested too"),
    (
        "avro of another schema", "a list of 2**62 nulls, which have no bytes",
        b"\x00\x00\xfe" + b"\xff" * 8 + b"\x01", "not Avro: its bytes end",
    ),
    ("protobuf", "a group in a group", b"\xa3\x06" * LONG, "not Protobuf: groups are nested too deeply"),
    ("protobuf", "a text of 2**62 bytes", b"\x0a" + b"\xff" * 8 + b"\x3f", "not Protobuf: k: the bytes end"),
    ("protobuf", "a field a million times", b"\x0a\x00" * LONG, "missing attribute: t"),
    ("protobuf", "a varint without end", b"\x18" + b"\xff" * LONG, "not Protobuf"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "reason"), [pytest.param(name, *rest, id=f"{name}: {what}") for name, what, *rest in BOMBS]
)
def test_a_bomb_is_a_dead_letter_with_a_short_reason(name: str, value: bytes, reason: str) -> None:
    decode, ordinary = ORDINARY[name]
    decoded = decode(pa.array([value, ordinary[0].as_py()], pa.binary()))
    ((row, why),) = decoded.bad
    assert (row, list(decoded.good)) == (0, [1])
    assert why.startswith(reason)
    assert len(why) < MOST


class OneSchema:
    """A registry with one JSON Schema."""

    def __init__(self, schema: object) -> None:
        self.text = json.dumps(schema)

    def sources(self, *_: object) -> tuple[tuple[str, str], ...]:
        return (("", self.text),)


PREFIX = b"\x00\x00\x00\x00\x01"


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"additionalProperties": {"type": "array"}}, '{"' + "a" * LONG + '":1}'),
        ({"type": "array"}, '"' + "a" * LONG + '"'),
        ({"properties": {"z": {"$ref": "#"}}, "type": "object"}, '{"z":' * 1000 + "1" + "}" * 1000),
        ({"properties": {"k": {"pattern": r"^(a|a)*(?=b)$"}}}, json.dumps({"k": "a" * 5000})),
    ],
    ids=["long name", "long text", "deep", "regular expression with an exponential number of steps"],
)
def test_what_a_schema_refuses_has_a_short_reason(schema: object, value: str) -> None:
    read = JsonConfluent(SCHEMA, OneSchema(schema), "s", "", JSON)  # type: ignore[arg-type]
    ((_, why),) = read.decode(pa.array([PREFIX + value.encode()], pa.binary())).bad
    assert why.startswith("not valid: ")
    assert len(why) < 2 * MOST


def doubled(depth: int) -> dict[str, object]:
    """A schema whose parts each refer to the next one by two ways."""
    parts = {
        f"a{n}": {"allOf": [{"$ref": f"#/definitions/a{n + 1}"}, {"not": {"not": {"$ref": f"#/definitions/a{n + 1}"}}}]}
        for n in range(depth)
    }
    return {
        "definitions": {**parts, f"a{depth}": {"type": "object"}},
        "properties": {"k": {"$ref": "#/definitions/a0"}},
    }


def test_a_schema_that_compares_a_value_with_a_billion_schemas_cannot_be_used() -> None:
    read = JsonConfluent(SCHEMA, OneSchema(doubled(30)), "s", "", JSON)  # type: ignore[arg-type]
    ((_, why),) = read.decode(pa.array([PREFIX + b"{}"], pa.binary())).bad
    assert why.startswith(
        "unknown schema: the schema 1 cannot be used: expected a JSON Schema that compares a value with"
    )


def test_a_schema_that_refers_to_itself_can_be_used() -> None:
    tree = {"type": "object", "oneOf": [{"$ref": "#"}, {"properties": {"z": {"anyOf": [{"$ref": "#"}, True]}}}]}
    check_comparisons(tree)
    check_comparisons(doubled(10))


class Letter:
    """A record in the topic of dead letters that another producer wrote."""

    def __init__(self, **headers: bytes) -> None:
        self._headers = [(f"sluice-{name}", value) for name, value in headers.items()]

    def headers(self) -> list[tuple[str, bytes]]:
        return self._headers

    def timestamp(self) -> tuple[int, int]:
        return 1, 5000

    def offset(self) -> int:
        return 3

    def partition(self) -> int:
        return 0

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return b"x"


@pytest.mark.parametrize("number", [b"x", b"", b"1e9", b"nan", b"9" * 5000, b"\xff", "\u0663".encode()])
def test_a_dead_letter_of_another_producer_does_not_end_the_page(number: bytes) -> None:
    event = _dead_letter(Letter(timestamp=number, partition=number, offset=number))["event"]  # type: ignore[arg-type]
    assert (event["at"], event["topic_partition"]) == (5.0, 0)
    assert "offset" not in event


class Unreadable(Letter):
    """A record with a header whose name is not UTF-8."""

    def headers(self) -> list[tuple[str, bytes]]:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

    def set_headers(self, headers: object) -> None:
        pass

    def topic(self) -> str:
        return "dead"


def test_a_header_whose_name_is_not_utf8_does_not_end_the_page() -> None:
    assert _dead_letter(Unreadable())["event"]["record"] == {"value": "x"}  # type: ignore[arg-type]


# ---- expressions -----------------------------------------------------------------------------------------------------

PRODUCTS = """
pipeline: p
streams:
  a: {topic: a, schema: {s: string, t: string}}
  b: {topic: b}
  d: {topic: d}
operators:
  - {name: m, map: a, output: {b: {y: 'length(%s)'}}}
dead_letters: d
kafka: {bootstrap.servers: "localhost:9092"}
"""


@pytest.mark.parametrize(
    ("expression", "s", "t", "size"),
    [
        ('replace(s, "a", t)', "a" * 1000, "b" * 1000, 1_000_000),
        ('replace(s, "a", t)', "a" * 100_000, "b" * 100_000, None),
        ('replace(s, t, "")', "a" * 2_000_000, "b", 2_000_000),
        ("replace(s, t, s)", "ab" * 1_000_000, "a", None),
        ('join(split(s, ","), t)', "," * 1000, "b" * 1000, 1_000_000),
        ('join(split(s, ","), t)', "," * 100_000, "b" * 100_000, None),
        ('join(split(s, ","), "b")', "," * 2_000_000, "", 2_000_000),
    ],
)
def test_a_product_of_two_long_texts_has_no_value(expression: str, s: str, t: str, size: int | None) -> None:
    (output,) = replay(
        load_text(PRODUCTS % expression, "p.yaml"), [{"stream": "a", "at": 1, "tuple": {"s": s, "t": t}}]
    )
    assert output.get("tuple") == ({"y": size} if size is not None else None)
    if size is None:
        assert "has no value" in output["dead_letter"]["reason"]


# ---- values of the type json -----------------------------------------------------------------------------------------

ANY = """
pipeline: p
streams:
  a: {topic: a, schema: {k: string, j: json}}
  b: {topic: b}
  d: {topic: d}
operators:
  - name: last
    aggregate: a
    window: sliding, count(2), count(1), partitioned
    partition_by: [k]
    output:
      b: {k: k, j: Last(j)}
dead_letters: d
kafka: {bootstrap.servers: "localhost:9092"}
"""


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def events(*records: tuple[str, str]) -> list[dict[str, Any]]:
    return [
        {"stream": "a", "at": at, "record": {"value": f'{{"k": {json.dumps(k)}, "j": {j}}}'}}
        for at, (k, j) in enumerate(records)
    ]


def test_the_deepest_value_is_shown_everywhere() -> None:
    given = events(("a", nested(DEEPEST)))
    pipeline = load_text(ANY, "p.yaml")
    (tuple_, _) = replay(pipeline, given)
    assert json.dumps(tuple_["tuple"]["j"]).count("[") == DEEPEST
    assert drawing(build_story(pipeline, given)).startswith("<svg")
    assert in_terminal(given)
    shown = answer(ANY, given, "p.yaml")
    assert shown["error"] is None
    assert json.dumps(shown)


@pytest.mark.parametrize("depth", [DEEPEST + 1, 1000])
def test_a_deeper_value_is_a_dead_letter(depth: int) -> None:
    (letter,) = replay(load_text(ANY, "p.yaml"), events(("a", nested(depth))))
    reason = letter["dead_letter"]["reason"]
    assert reason.startswith("wrong type: j: expected json, got ")
    assert len(reason) < MOST


# ---- what a terminal, a log or a browser obeys -----------------------------------------------------------------------

#: colours and a new title of the terminal, the same in one character each, an end of the line, a reversed direction of
#: writing, what no UTF-8 has, markup
FOOLING = "\x1b[31m\x1b]0;title\x07 \x9b31m \r\n \u202e \u2028 \x7f <script>alert(1)</script>"


def in_terminal(given: list[dict[str, Any]]) -> str:
    console = Console(width=200, force_terminal=False, color_system=None)
    with console.capture() as capture:
        console.print(table(build_story(load_text(ANY, "p.yaml"), given), 200))
    return capture.get()


@pytest.mark.parametrize("form", [Lines, JsonLines])
@pytest.mark.parametrize("text", [FOOLING, FOOLING.replace(" ", ""), "\x1b[31m", "\x9b", "\ud800", "\x7f"])
def test_a_log_line_is_one_line_without_control_characters(form: type[Lines], text: str) -> None:
    record = logging.LogRecord("sluice", logging.INFO, "", 0, "%s", (text,), None)
    record.key = text
    line = form().format(record)
    assert line.isprintable()
    assert line.encode()


def test_a_log_line_in_json_keeps_the_text() -> None:
    record = logging.LogRecord("sluice", logging.INFO, "", 0, "%s", (FOOLING,), None)
    assert json.loads(JsonLines().format(record))["message"] == FOOLING


def test_the_table_of_the_terminal_shows_control_characters_as_escapes() -> None:
    shown = in_terminal(events((FOOLING, json.dumps(FOOLING, ensure_ascii=False))))
    assert all(line.isprintable() for line in shown.splitlines())
    assert r"\u001b[31m" in shown


def test_a_picture_is_valid_xml_without_scripts() -> None:
    svg = drawing(build_story(load_text(ANY, "p.yaml"), events((FOOLING, json.dumps(FOOLING)))))
    assert not [element for element in ET.fromstring(svg).iter() if element.tag.endswith("script")]  # noqa: S314 - our own
    assert all(line.isprintable() for line in svg.splitlines())


def test_a_text_that_is_visible_stays_as_it_is() -> None:
    assert [visible(text) for text in ("", "a b", "é€😀", "a\tb", "\U000e0001")] == [
        "", "a b", "é€😀", r"a\tb", r"\udb40\udc01",
    ]  # fmt: skip
