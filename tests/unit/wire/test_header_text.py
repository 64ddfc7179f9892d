import pyarrow as pa

from sluice.columns.arrow_types import HEADERS
from sluice.wire.header_text import as_lists


def test_headers_as_spark_writes_them():
    """A null value is left out, equal keys stay, bytes are base64."""
    texts = [None, "[]", '[{"key":"a","value":"AP8="},{"key":"a"},{"key":"b","value":""}]']
    assert as_lists(pa.array(texts)).to_pylist() == [
        None,
        [],
        [{"key": "a", "value": b"\x00\xff"}, {"key": "a", "value": None}, {"key": "b", "value": b""}],
    ]


def test_no_headers_at_all():
    assert as_lists(pa.array([None, None], pa.string())).equals(pa.nulls(2, HEADERS))
