import pyarrow as pa
import pytest

from service.engine.items import FINAL, TUPLE, WINDOW
from service.wire.marks import CLOCK, UNKNOWN, WATERMARK, header, kinds

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
