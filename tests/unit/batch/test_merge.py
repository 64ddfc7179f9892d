from itertools import groupby, pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.batch.merge import merged, merged_parts
from sluice.batch.packed_rows import NO_ORDINAL, ordinal
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


@pytest.mark.parametrize(("buckets", "reports", "left"), [(1, 1, 1), (2, 2, 1), (3, 2, 0), (3, 3, 1)])
def test_a_lone_mark_stands_where_every_bucket_was_empty(buckets, reports, left):
    parts = [part((4, NO_ORDINAL, EMPTY_FIRING, None)) for _ in range(reports)]
    assert merged(parts, buckets).num_rows == left


def test_lone_marks_of_different_causes_are_not_mixed_up():
    first = part((4, NO_ORDINAL, EMPTY_FIRING, None), (5, NO_ORDINAL, EMPTY_FIRING, None))
    second = part((4, NO_ORDINAL, EMPTY_FIRING, None), (5, NO_ORDINAL, TUPLE, b"a"), (5, NO_ORDINAL, WINDOW, b"a"))
    assert merged([first, second], 2).column("kind").to_pylist() == [EMPTY_FIRING, TUPLE, WINDOW]


# ---- in pieces -------------------------------------------------------------------------------------------------------


def sorted_slowly(sources, buckets):
    """The values of all rows of all buckets in order."""
    rows = [(bucket, row) for bucket, own in enumerate(sources) for row in own]
    found = []
    for _, same in groupby(sorted(rows, key=lambda one: one[1][:2]), key=lambda one: one[1][:2]):
        group = list(same)
        if len({bucket for bucket, _ in group}) > 1:
            group.sort(key=lambda one: place(one[1]))
        lone = [n for n, (_, row) in enumerate(group) if row[2] == EMPTY_FIRING]
        dropped = lone[len(lone) // buckets :]
        found += [row[-1] for n, (_, row) in enumerate(group) if n not in dropped]
    return found


def place(row):
    """What the order of rows of several buckets with one time and ordinal is by."""
    _, _, kind, key, window, *_ = row
    last = {WATERMARK: 1, FINAL: 2}.get(kind, 0)
    return last, 0 if last else window, key or b""


def batch_of(rows, *, windows=True):
    """An Arrow batch of rows (at, ordinal, kind, key, window, value)."""
    *columns, window, value = zip(*rows, strict=True)
    batch = part(*zip(*columns, strict=True)).append_column("value", pa.array(value, pa.binary()))
    return batch.append_column("window", pa.array(window, pa.int64())) if windows else batch


def cut(batch, ends):
    return [batch.slice(start, end - start) for start, end in pairwise(sorted({0, batch.num_rows, *ends}))]


def values(pieces):
    return [value for piece in pieces for value in piece.column("value").to_pylist()]


KINDS = [TUPLE, TUPLE, TUPLE, TUPLE, WINDOW, WATERMARK, FINAL, EMPTY_FIRING]
KEYS = [None, b"", b"a", b"a\0", b"ab", b"b", b"\xff"]


@st.composite
def outputs(draw, *, windows):
    """The rows of each bucket, in order of time and ordinal, and perhaps of window and key. All values differ."""
    row = st.tuples(
        st.sampled_from([1, 2]), st.sampled_from([NO_ORDINAL, 7]), st.sampled_from(KINDS), st.sampled_from(KEYS),
        st.sampled_from([0, -5, 5] if windows else [0]),
    )  # fmt: skip
    sources = draw(st.lists(st.lists(row, min_size=1, max_size=25), min_size=1, max_size=4))
    in_order = draw(st.booleans())
    return [
        [
            (*one, b"%d.%d" % (bucket, number))
            for number, one in enumerate(sorted(own, key=lambda r: (r[:2], place(r)) if in_order else r[:2]))
        ]
        for bucket, own in enumerate(sources)
    ]


@pytest.mark.parametrize("windows", [False, True])
@given(data=st.data(), more=st.integers(0, 1), size=st.sampled_from([1, 100, 1 << 20]))
def test_the_order_is_that_of_a_sort_of_all_rows_however_they_are_cut(windows, data, more, size):
    sources = data.draw(outputs(windows=windows))
    buckets = len(sources) + more
    whole = [batch_of(own, windows=windows) for own in sources]
    pieces = [cut(batch, data.draw(st.sets(st.integers(1, batch.num_rows), max_size=8))) for batch in whole]
    expected = sorted_slowly(sources, buckets)
    assert values([merged(whole, buckets)]) == expected
    assert values(merged_parts(pieces, buckets, size)) == expected


def firing(bucket, buckets, rows, value):
    """The outputs of one firing in a bucket: each bucket has other keys."""
    keys = [b"%06d" % (number * buckets + bucket) for number in range(rows)]
    return batch_of([(5, NO_ORDINAL, TUPLE, key, 0, value) for key in keys])


@pytest.mark.parametrize("pieces", [1, 20], ids=["one Arrow batch a bucket", "several"])
def test_no_piece_is_larger_than_the_limit(pieces):
    """The offsets of an Arrow array reach to 2 GiB; a firing may be larger."""
    batches = [firing(bucket, 3, 200, b"x" * 1000) for bucket in range(3)]
    sources = [cut(batch, range(0, 200, 200 // pieces)) for batch in batches]
    found = list(merged_parts(sources, 3, 16_000))
    assert [key for piece in found for key in keys(piece)] == [f"{number:06}" for number in range(600)]
    assert max(piece.num_rows for piece in found) == 15


def test_a_record_above_the_limit_is_a_piece_of_its_own():
    batches = [firing(bucket, 3, 1, b"x" * 1000) for bucket in range(3)]
    assert [keys(piece) for piece in merged_parts([[batch] for batch in batches], 3, 10)] == [
        ["000000"], ["000001"], ["000002"],
    ]  # fmt: skip


def test_a_firing_of_many_pieces_is_not_held_in_memory():
    """What is allocated is about a piece of each bucket, not the whole firing."""
    batches = [firing(bucket, 4, 2000, b"x" * 1000) for bucket in range(4)]
    sources = [cut(batch, range(0, 2000, 20)) for batch in batches]
    before, most = pa.total_allocated_bytes(), 0
    for _ in merged_parts(sources, 4):
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < 20 * 4 * 1000 * 10, "the firing has a hundred times as much as four pieces"


def test_what_a_watermark_behind_its_record_caused_is_merged_behind_all_that_the_record_caused():
    """ET4, where the outputs of one record are merged piece by piece, as each bucket has a second batch."""
    rows = [[(1, 7, b"d", False), (1, 7, b"e", True)], [(1, 7, b"c", False), (1, 7, b"a", True)]]
    sources = []
    for own in rows:
        columns = zip(*[*own, (2, 9, b"z", False)], strict=True)
        at, ordinal, key, behind = map(list, columns)
        batch = batch_of([(t, n, TUPLE, k, 0, k) for t, n, k in zip(at, ordinal, key, strict=True)])
        sources.append(cut(batch.append_column("behind", pa.array(behind)), {1, 2}))
    assert values(merged_parts(sources, 2)) == [b"c", b"d", b"a", b"e", b"z", b"z"]
