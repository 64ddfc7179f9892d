import pyarrow as pa
import pytest

from sluice.engine.stream.items import FINAL, MAX_TIME, TUPLE, WATERMARK, WINDOW
from sluice.engine.stream.watermark_text import to_text
from sluice.wire.mark_headers import CLOCK, UNKNOWN, header, kinds, watermarks

#: the headers of a record as Spark hands them on
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def headers(*records):
    return pa.array(
        [pairs and [{"key": key, "value": value} for key, value in pairs] for pairs in records], HEADERS
    )  # fmt: skip


@pytest.mark.parametrize(
    ("pairs", "kind"),
    [
        (None, TUPLE),
        ([], TUPLE),
        ([("other", b"window")], TUPLE),
        ([("sluice-mark", b"window")], WINDOW),
        ([("sluice-mark", b"final")], FINAL),
        ([("sluice-mark", b"watermark")], WATERMARK),
        ([("sluice-mark", b"clock")], CLOCK),
        ([("sluice-mark", b"Window")], UNKNOWN),
        ([("sluice-mark", b"")], UNKNOWN),
        ([("sluice-mark", None)], UNKNOWN),
        ([("sluice-mark", b"\xff")], UNKNOWN),
        ([("Sluice-Mark", b"window")], TUPLE),
        ([("a", b"x"), ("sluice-mark", b"final"), ("b", None)], FINAL),
        ([("sluice-mark", b"window"), ("sluice-mark", b"final")], FINAL),
    ],
)
def test_the_last_mark_header_says_the_kind(pairs, kind):
    assert kinds(headers(pairs)).tolist() == [kind]


def test_each_record_has_its_own_kind_also_in_a_slice():
    found = headers(None, [("sluice-mark", b"window")], [("x", b"")], [("x", b""), ("sluice-mark", b"final")], None)
    assert kinds(found).tolist() == [TUPLE, WINDOW, TUPLE, FINAL, TUPLE]
    assert kinds(found[1:4]).tolist() == [WINDOW, TUPLE, FINAL]
    assert kinds(found[:0]).tolist() == []


@pytest.mark.parametrize("kind", [WINDOW, FINAL, WATERMARK, CLOCK])
def test_a_header_that_is_written_reads_back(kind):
    assert kinds(headers([header(kind)])).tolist() == [kind]


SECOND = 10**9


@pytest.mark.parametrize(
    ("value", "time"),
    [
        (b"0", 0),
        (b"1357041600", 1_357_041_600 * SECOND),
        (b"1357041600.000000001", 1_357_041_600 * SECOND + 1),
        (b"-1.5", -SECOND * 3 // 2),
        (b"2e3", 2000 * SECOND),
        (b"2013-01-01T12:00:00Z", 1_357_041_600 * SECOND),
        (b"2013-01-01 13:00:00.5+01:00", 1_357_041_600 * SECOND + SECOND // 2),
        (b"2013-01-01T12:00:00", 1_357_041_600 * SECOND),
        (b"2013-01-01", 1_356_998_400 * SECOND),
        (b"1e300", MAX_TIME),
        (b"-1e300", -MAX_TIME),
        (b"9223372036.854775807", MAX_TIME),
    ],
)
def test_the_value_of_a_watermark_is_a_time(value, time):
    found, sound = watermarks(pa.array([value]))
    assert (found.tolist(), sound.tolist()) == ([time], [True])


@pytest.mark.parametrize(
    "value", [None, b"", b"NaN", b"Infinity", b'"2013-01-01"', b"1_0", b"noon", b"\xff", b"\xd9\xa1"]
)
def test_a_watermark_without_a_time_is_none(value):
    found, sound = watermarks(pa.array([b"1", value, b"2"], pa.binary()))
    assert sound.tolist() == [True, False, True]
    assert found[sound].tolist() == [SECOND, 2 * SECOND]


@pytest.mark.parametrize("time", [0, 1, 1_357_041_600 * SECOND + 5, -1, MAX_TIME])
def test_a_watermark_that_is_written_reads_back(time):
    found, sound = watermarks(pa.array([to_text(time).encode()]))
    assert (found.tolist(), sound.tolist()) == ([time], [True])
