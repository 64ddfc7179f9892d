"""A text that stands for a time has the same forms in every place that reads one (docs/formats.md has the table)."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from sluice.columns.json_columns import column
from sluice.columns.number_columns import times
from sluice.config.checks import constants, settings
from sluice.engine.stream.functions.conversions import to_timestamp
from sluice.engine.stream.watermark_text import from_text
from sluice.model.spec import Coding, FormatOptions
from sluice.model.types import TIMESTAMP
from sluice.replayer.event_file import clock_time
from sluice.time_units import nanoseconds
from sluice.wire.formats.csv_format import CsvOptions
from sluice.wire.formats.format_contract import Part
from sluice.wire.formats.format_table import codec
from sluice.wire.json.json_batch import decode_scannable
from sluice.wire.json.json_codec import decode_exactly

SECOND = 1_000_000_000
NOON = 1_357_041_600 * SECOND  # 2013-01-01T12:00:00Z
HOUR = 3600 * SECOND

READ = {
    "2013-01-01": NOON - 12 * HOUR,
    "2013-01-01T12:00": NOON,
    "2013-01-01T12:00:00": NOON,
    "2013-01-01T12:00:00Z": NOON,
    "2013-01-01t12:00:00z": NOON,
    "2013-01-01T12:00:00z": NOON,
    "2013-01-01 12:00:00": NOON,
    "2013-01-01 12:00:00Z": NOON,
    "2013-01-01t12:00z": NOON,
    "2013-01-01T12:00:00+02": NOON - 2 * HOUR,
    "2013-01-01T12:00:00-04": NOON + 4 * HOUR,
    "2013-01-01T12:00:00-0400": NOON + 4 * HOUR,
    "2013-01-01T12:00:00+0530": NOON - 5 * HOUR - HOUR // 2,
    "2013-01-01T12:00:00-03:30": NOON + 3 * HOUR + HOUR // 2,
    "2013-01-01 12:00:00+02": NOON - 2 * HOUR,
    "2013-01-01t12:00-0400": NOON + 4 * HOUR,
    "2013-01-01T12:00:00-00:00": NOON,
    "2013-01-01T12:00:00+00": NOON,
    "2013-01-01T12:00:00.5+02": NOON + SECOND // 2 - 2 * HOUR,
    "2013-01-01T12:00:00.123456789-0400": NOON + 123_456_789 + 4 * HOUR,
    "2013-01-01T12:00:00.000001z": NOON + 1000,
    "2013-01-01T12:00:00,25Z": NOON + SECOND // 4,
    "2013-01-01T12:00:00,25": NOON + SECOND // 4,
    "1969-12-31T23:59:59.5z": -SECOND // 2,
    "1677-09-22T00:00:00Z": -9_223_286_400 * SECOND,
    "2262-04-11T23:47:16.854775806+00": 2**63 - 2,
}
NOT_READ = [
    "20130101T120000Z", "2013-W01-2", "2013-001", "2013-01", "2013-01-01T12", "2013-01-01T12Z", "2013-1-1",
    "2013-02-29", "2013-13-01T12:00:00Z", "2013-01-01T24:00:00Z", "2013-01-01T12:60:00Z", "2013-01-01T23:59:60Z",
    "2013-01-01T12:00:00.Z", "2013-01-01T12:00:00.1234567891Z", "2013-01-01T12:00.5Z", "2013-01-01T12:00:00 Z",
    "2013-01-01T12:00:00+2", "2013-01-01T12:00:00+020", "2013-01-01T12:00:00+24", "2013-01-01T12:00:00+0060",
    "2013-01-01T12:00:00+02:", "2013-01-01T12:00:00+02:0", "2013-01-01T12:00:00UTC", "2013-01-01T12:00:00\u221204:00",
    "2013-01-01Z", "2013-01-01+02", "2013-01-01_12:00:00", "2013-01-01  12:00:00", " 2013-01-01", "2013-01-01T",
    "2013-01-01T12:00:00Z\n", "1677-09-21T00:00:00+02", "2262-04-11T23:47:16.854775807-00:01", "9999-12-31", "", "now",
]  # fmt: skip


def scanned(text):
    tuples, sure = decode_scannable(pa.array([json.dumps({"a": text}).encode()]), (("a", TIMESTAMP),))
    return tuples.column(0)[0].value if sure[0] else None


def decoded(form, value):
    options = CsvOptions() if form == "csv" else FormatOptions()
    tuples = codec(Part(Coding(form, options), (("a", TIMESTAMP),), {})).decode(pa.array([value], pa.binary())).tuples
    return tuples.column(0)[0].value if len(tuples) else None


def in_json(text):
    tuples = decode_exactly(pa.array([json.dumps({"a": text}).encode()]), (("a", TIMESTAMP),)).tuples
    return tuples.column(0)[0].value if len(tuples) else None


def refusing(read):
    """The function with None in place of a refusal."""

    def reads(text):
        try:
            return read(text)
        except (ValueError, TypeError, ArithmeticError):
            return None

    return reads


PLACES = {
    "JSON": lambda text: decoded("json", json.dumps({"a": text}).encode()),
    "JSON, one by one": in_json,
    "CSV": lambda text: decoded("csv", f'"{text}"'.encode()),
    "text": lambda text: decoded("text", text.encode()),
    "expression": lambda text: to_timestamp(pa.array([None, text]))[1].value,
    "constant of an expression": lambda text: to_timestamp(pa.scalar(text)).value,
    "tuple of an event": refusing(lambda text: column([text], TIMESTAMP)[0].value),
    "watermark in a header": refusing(from_text),
    "time `at` of an event": refusing(clock_time),
    "clock_origin": refusing(settings.nanoseconds),
    "default": refusing(constants.instant),
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize(("text", "time"), READ.items(), ids=READ)
def test_a_time_is_read(text, time, place):
    assert place(text) == time


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("text", NOT_READ)
def test_another_text_is_no_time(text, place):
    assert place(text) is None


@pytest.mark.parametrize("text", [text for text in READ if "," not in text and not text.startswith(("1677", "2262"))])
def test_the_usual_forms_need_no_second_decoder(text):
    assert scanned(text) == READ[text]


def test_a_column_of_mixed_texts():
    texts = pa.array([*READ, None, *NOT_READ])
    expected = [*READ.values(), None, *[None] * len(NOT_READ)]
    assert [time.value for time in times(texts)] == expected


def test_a_time_without_nanoseconds_in_int64_is_a_number_of_python():
    assert nanoseconds("9999-12-31") == 253_402_214_400 * SECOND
