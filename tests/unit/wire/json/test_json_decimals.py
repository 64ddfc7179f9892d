"""Decimals in JSON: numbers by their digits, texts, and Kafka Connect's bytes (DE17, DE18)."""

from __future__ import annotations

import random
from base64 import b64encode
from decimal import Decimal

import pyarrow as pa
import pytest

from sluice.columns.arrow_types import array_of
from sluice.model.spec import Coding
from sluice.model.types import STRING, Schema, list_of, parse_type
from sluice.wire.formats.format_contract import Codec, Part
from sluice.wire.formats.format_table import codec
from sluice.wire.formats.json_format import JsonOptions
from sluice.wire.json import json_codec, json_write

CENTS, WIDE = parse_type("decimal(2)"), parse_type("decimal(38, 9)")


def coded(spelling: str, schema: Schema = (("p", CENTS),), **defaults: str) -> Codec:
    return codec(Part(Coding("json", JsonOptions(spelling)), schema, defaults))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12.5", "12.50"), ('"12.50"', "12.50"), ("12.5000", "12.50"), ('"1e2"', "100.00"), ("1.1e1", "11.00"),
        ("-0.0", "0.00"), ("1234567890123456.78", "1234567890123456.78"), ("0.1", "0.10"), ("0", "0.00"),
        ('"-0.05"', "-0.05"),
        ("1.005", None), ("12345678901234567", None), ('"12,5"', None), ('" 1"', None), ('""', None), ("true", None),
        ('"+1"', None), ('"NaN"', None), ("[1]", None), ('".5"', None),
    ],
)  # fmt: skip
def test_what_is_read(text: str, expected: str | None):
    values, schema = pa.array([b'{"p":%b}' % text.encode()], pa.binary()), (("p", CENTS),)
    decoded = json_codec.decode(values, schema)
    assert decoded.tuples.column(0).to_pylist() == ([] if expected is None else [Decimal(expected)])
    exact = json_codec.decode_exactly(values, schema)
    assert (exact.bad, exact.tuples) == (decoded.bad, decoded.tuples)


def test_the_reason_has_the_digits():
    decoded = json_codec.decode(pa.array([b'{"p":1.005}'], pa.binary()), (("p", CENTS),))
    ((row, why),) = decoded.bad
    assert row == 0
    assert why == (
        "wrong type: p: expected decimal(2), got 1.005 (it has at most 16 digits before the point and 2 behind it, "
        "zeros at the end apart)"
    )


def test_no_digit_passes_a_float64():
    """Also beside a list, which the scanner does not read, and a number with an exponent."""
    text = "12345678901234567890123456789.123456789"
    for more in b'"xs":[0.1]', b'"xs":[1e-1]':
        values = pa.array([b'{"w":%b,%b}' % (text.encode(), more)], pa.binary())
        decoded = json_codec.decode(values, (("w", WIDE), ("xs", list_of(CENTS))))
        assert decoded.tuples.to_pylist() == [{"w": Decimal(text), "xs": [Decimal("0.10")]}]


def test_random_numbers_come_back():
    chance = random.Random(5)
    for type_ in map(parse_type, ["decimal(2)", "decimal(0)", "decimal(18)", "decimal(38, 9)", "decimal(38, 38)"]):
        precision, scale = type_.precision, type_.scale
        numbers = [f"{chance.randrange(1 - 10**n, 10**n)}e-{scale}" for n in range(1, precision + 1) for _ in range(9)]
        column = array_of(numbers, type_)
        written = json_write.encode(pa.RecordBatch.from_arrays([column], ["p"]))
        decoded = json_codec.decode(written, (("p", type_),))
        assert (decoded.bad, decoded.tuples.column(0)) == ([], column)


@pytest.mark.parametrize(
    ("spelling", "written"),
    [("number", b'{"p":-12.50,"s":"a"}'), ("string", b'{"p":"-12.50","s":"a"}'), ("base64", b'{"p":"+x4=","s":"a"}')],
)
def test_the_three_spellings(spelling: str, written: bytes):
    of = coded(spelling, (("p", CENTS), ("s", STRING)))
    tuples = pa.record_batch([array_of(["-12.50"], CENTS), pa.array(["a"])], names=["p", "s"])
    assert of.encode(tuples).to_pylist() == [written]
    assert of.decode(pa.array([written], pa.binary())).tuples.equals(tuples)


INSIDE = parse_type(
    "tuple<p: decimal(2), l: list<decimal(2)?>, m: map<string, decimal(2)>, o: tuple<w: decimal(38, 9)?>>?"
)


@pytest.mark.parametrize(
    ("spelling", "value"),
    [
        ("number", '{"p":-12.50,"l":[1.00,null],"m":{"a":0.05},"o":{"w":-0.000000001}}'),
        ("string", '{"p":"-12.50","l":["1.00",null],"m":{"a":"0.05"},"o":{"w":"-0.000000001"}}'),
        ("base64", '{"p":"+x4=","l":["ZA==",null],"m":{"a":"BQ=="},"o":{"w":"/w=="}}'),
    ],
)
def test_the_three_spellings_hold_inside_of_other_values(spelling: str, value: str):
    of = coded(spelling, (("z", INSIDE), ("l", list_of(CENTS))))
    elements = {"number": "2.00", "string": '"2.00"', "base64": '"AMg="'}[spelling]
    texts = [f'{{"z":{value},"l":[{elements}]}}'.encode(), b'{"z":null,"l":[]}']
    decoded = of.decode(pa.array(texts, pa.binary()))
    assert decoded.bad == []
    inside = {"p": "-12.50", "l": ["1.00", None], "m": [("a", "0.05")], "o": {"w": "-1E-9"}}
    assert repr(decoded.tuples.column(0).to_pylist()) == repr([with_decimals(inside), None])
    assert of.encode(decoded.tuples).to_pylist() == texts


def with_decimals(value):
    """The value with decimals in place of texts of numbers."""
    match value:
        case dict():
            return {name: with_decimals(item) for name, item in value.items()}
        case list():
            return list(map(with_decimals, value))
        case tuple():
            return (value[0], with_decimals(value[1]))
    return None if value is None else Decimal(value)


def test_a_number_is_no_decimal_in_base64_inside_of_a_list():
    decoded = coded("base64", (("l", list_of(CENTS)),)).decode(pa.array([b'{"l":[1.00]}'], pa.binary()))
    assert decoded.bad[0][1].startswith("wrong type: l: expected list<decimal(2)>, got [1.0")


def test_a_text_with_the_mark_of_numbers():
    mark = "\ufdd0"
    tuples = pa.record_batch(
        [array_of(["1.10"], CENTS), pa.array([f"{mark}1{mark}"]), array_of([["2"]], list_of(CENTS))],
        names=["p", "s", "l"],
    )
    assert json_write.encode(tuples).to_pylist() == [f'{{"p":1.10,"s":"{mark}1{mark}","l":[2.00]}}'.encode()]


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        ('{"scale":2,"value":"BNI="}', "12.34"), ('{"scale":0,"value":"BQ=="}', "5.00"),
        ('{"value":"+x4=","scale":2}', "-12.50"), ('{"scale":3,"value":"MDQ="}', "12.34"),
        ('{"scale":-2,"value":"BQ=="}', "500.00"), ('{"scale":3,"value":"BNI="}', None), ('{"scale":2}', None),
        ('{"scale":"2","value":"BNI="}', None), ('{"scale":2,"value":1234}', None),
        ('{"scale":1000000000,"value":"BNI="}', None), ('{"scale":2,"value":"BNI=","more":1}', None),
    ],
)  # fmt: skip
def test_numbers_of_debezium_without_a_fixed_scale(number: str, expected: str | None):
    decoded = coded("base64").decode(pa.array([f'{{"p":{number}}}'.encode()], pa.binary()))
    assert decoded.tuples.column(0).to_pylist() == ([Decimal(expected)] if expected else [])


def test_bytes_of_connect_that_are_no_decimal():
    def document(content: bytes) -> bytes:
        return b'{"p":"%b"}' % b64encode(content)

    values = [document(b"\x04\xd2"), document(b"\x7f" * 9), b'{"p":"?"}', b'{"p":12.5}', document(b""), b"{}"]
    decoded = coded("base64").decode(pa.array(values, pa.binary()))
    assert (decoded.tuples.column(0).to_pylist(), decoded.good.tolist()) == ([Decimal("12.34")], [0])
    assert [row for row, _ in decoded.bad] == [1, 2, 3, 4, 5]
    assert coded("base64", p="0.05").decode(pa.array([b"{}"], pa.binary())).tuples.to_pylist() == [
        {"p": Decimal("0.05")}
    ]
