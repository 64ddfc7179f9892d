import pyarrow as pa
import pytest

from sluice.batch.merge import merged
from sluice.batch.record_order import NO_ORDINAL, ordinal
from sluice.engine.stream.items import EMPTY_FIRING, FINAL, MAX_TIME, TUPLE, WATERMARK, WINDOW


def part(*rows):
    """Rows of (at, ordinal, kind, key)."""
    at, ordinals, kind, key = zip(*rows, strict=True)
    return pa.RecordBatch.from_pydict({
        "at": pa.array(at, pa.int64()), "ordinal": pa.array(ordinals, pa.int64()), "kind": pa.array(kind, pa.int8()),
        "key": pa.array(key, pa.binary()),
    })  # fmt: skip


def keys(batch):
    return [(key or b"").decode() for key in batch.column("key").to_pylist()]


def test_one_bucket_is_as_it_is():
    only = part((1, 5, TUPLE, b"b"), (1, 5, TUPLE, b"a"))
    assert merged([only], 1) is only


def test_records_follow_the_time_and_then_the_place_of_what_made_them():
    first = part((1, 10, TUPLE, b"a"), (2, 12, TUPLE, b"c"), (3, 9, TUPLE, b"e"))
    second = part((1, 11, TUPLE, b"b"), (3, 8, TUPLE, b"d"))
    assert keys(merged([first, second], 2)) == ["a", "b", "c", "d", "e"]


def test_a_timer_comes_before_a_record_of_its_time():
    first = part((5, ordinal(0, 0), TUPLE, b"record"))
    second = part((5, NO_ORDINAL, TUPLE, b"timer"))
    assert keys(merged([first, second], 2)) == ["timer", "record"]


def test_runs_of_one_cause_come_in_the_order_of_their_keys_and_stay_whole():
    first = part((1, 7, TUPLE, b"b"), (1, 7, WINDOW, b"b"), (1, 7, TUPLE, b"d"), (1, 7, WINDOW, b"d"))
    second = part((1, 7, TUPLE, b"a"), (1, 7, TUPLE, b"a"), (1, 7, WINDOW, b"a"), (1, 7, TUPLE, b"c"))
    assert keys(merged([first, second], 2)) == ["a", "a", "a", "b", "b", "c", "d", "d"]


def test_what_one_bucket_alone_made_keeps_its_order():
    first = part((1, 7, TUPLE, b"z"), (1, 7, TUPLE, b"a"))
    second = part((2, 8, TUPLE, b"m"))
    assert keys(merged([first, second], 2)) == ["z", "a", "m"]


def test_a_final_mark_comes_last():
    first = part((1, 7, FINAL, None))
    second = part((1, 7, TUPLE, b"a"), (1, 7, WINDOW, b"a"))
    assert keys(merged([first, second], 2)) == ["a", "a", ""]


def panes(*rows):
    """Rows of (start of the window, kind, key), all made by one watermark."""
    windows, kind, key = zip(*rows, strict=True)
    return part(*((1, 7, *row) for row in zip(kind, key, strict=True))).append_column(
        "window", pa.array(windows, pa.int64())
    )


def test_panes_of_one_watermark_come_by_their_starts_then_by_key_and_the_watermark_behind_them():
    first = panes((0, TUPLE, b"b"), (0, WINDOW, b"b"), (10, TUPLE, b"a"), (10, WINDOW, b"a"), (20, WATERMARK, None))
    second = panes((0, TUPLE, b"c"), (0, WINDOW, b"c"), (10, TUPLE, b"d"), (10, WINDOW, b"d"))
    assert keys(merged([first, second], 2)) == ["b", "b", "c", "c", "a", "a", "d", "d", ""]


def test_of_several_last_marks_the_final_one_is_the_last():
    first = panes((MAX_TIME, WATERMARK, None), (0, FINAL, None))
    second = panes((0, TUPLE, b"a"), (0, WINDOW, b"a"))
    assert merged([first, second], 2).column("kind").to_pylist() == [TUPLE, WINDOW, WATERMARK, FINAL]


@pytest.mark.parametrize(
    ("buckets", "reports", "left"),
    [(1, 1, 1), (2, 2, 1), (3, 2, 0), (3, 3, 1)],
)
def test_a_lone_mark_stands_where_every_bucket_was_empty(buckets, reports, left):
    parts = [part((4, NO_ORDINAL, EMPTY_FIRING, None)) for _ in range(reports)]
    assert merged(parts, buckets).num_rows == left


def test_lone_marks_of_different_causes_are_not_mixed_up():
    first = part((4, NO_ORDINAL, EMPTY_FIRING, None), (5, NO_ORDINAL, EMPTY_FIRING, None))
    second = part((4, NO_ORDINAL, EMPTY_FIRING, None), (5, NO_ORDINAL, TUPLE, b"a"), (5, NO_ORDINAL, WINDOW, b"a"))
    assert merged([first, second], 2).column("kind").to_pylist() == [EMPTY_FIRING, TUPLE, WINDOW]
