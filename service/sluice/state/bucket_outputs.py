"""Encodes the items that a bucket's operators emitted, as packed rows of records and dead letters, and counts them.

The statistics of operators (`report_of`) are the tuples and firings of a batch, and the size of the state after it.
They come from lengths and array operations; there is no loop over rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.batch.packed_rows import (
    BROADCAST,
    DEAD_LETTERS,
    NO_ORDINAL,
    NUMBERS,
    RECORDS,
    TUPLE_WITH_MARK,
    first_of,
    pack,
    pieces,
    port_of,
    topic_partition_of,
)
from sluice.batch.query_plan import Plan
from sluice.columns.key_bytes import partition_for
from sluice.engine.stream.items import ALL, EMPTY_FIRING, FINAL, KEY_MARK, MADE, TUPLE, WATERMARK, WINDOW, Items
from sluice.engine.stream.rejected_tuples import REJECTS, joined, without
from sluice.engine.stream.union_sources import topic_partition_of as read_from
from sluice.engine.stream.watermark_text import to_text
from sluice.kafka.batch_report import Counts
from sluice.model.spec import Operator, Stream
from sluice.state.bucket_batch import Batch
from sluice.time_units import MILLISECOND
from sluice.wire.dead_letter_record import of_operator
from sluice.wire.output_timestamps import UNUSABLE, not_later, of_attribute
from sluice.wire.record_codec import Records

SCHEMA = pa.schema([("kind", pa.int32()), ("packed", pa.binary())])


def outgoing(plan: Plan, outputs: Mapping[str, Items], batch: Batch, bucket: int) -> Iterator[tuple[int, bytes]]:
    """The packed rows of a bucket's outputs, and of the tuples that its operators rejected.

    outputs   the items of each stream that an operator emitted
    batch     the input that caused them
    """
    rejects = [outputs.get(REJECTS)]
    for stream in plan.pipeline.outputs:
        items = outputs.get(stream.name)
        if items is not None and len(items):
            written, refused = _writable(plan, stream, items)
            rejects.append(refused)
            rows = records(plan, stream, written, batch.ordinals, bucket)
            for piece in pieces(rows, plan.bounds.piece):
                yield RECORDS, pack(piece, {"stream": stream.name, "bucket": bucket})
    for items in joined(rejects).values():
        yield from _rejected(plan, items, batch)


def _writable(plan: Plan, stream: Stream, items: Items) -> tuple[Items, Items | None]:
    """The items without the tuples that the format of the stream cannot write (AV7), and these tuples or None."""
    reasons = Records.of(stream, plan.pipeline.settings.registry).refused(items.tuples)
    if not reasons:
        return items, None
    bad = np.zeros(items.tuples.num_rows, np.bool_)
    bad[list(reasons)] = True
    writer = next(
        spec.name for spec in plan.pipeline.operators if stream.name in {output.stream for output in spec.outputs}
    )
    kept, _, refused = without(bad, items, items.tuples, writer, [reasons[row] for row in sorted(reasons)])
    return kept, refused


def _rejected(plan: Plan, items: Items, batch: Batch) -> Iterator[tuple[int, bytes]]:
    """The dead letters of rejected tuples, by input stream.

    Each has the ordinal of the record that contained the tuple, or that caused an operator to make it.
    """
    ordinal = _ordinals(items, batch.ordinals)
    offset = _offsets(ordinal, batch.firsts)
    by_operator = (items.source == MADE) | _waited(plan, items, ordinal)
    for port, stream in enumerate(plan.inputs):
        # a tuple that a timer made is counted for port 0
        of_port = np.flatnonzero(port_of(np.maximum(ordinal, 0)) == port)
        rows = items.tuples.take(pa.array(of_port))
        if len(of_port):
            metadata = {"stream": stream.name, "topic": str(stream.topic), "refused": "yes"}
            letters = _letters(rows, ordinal[of_port], offset[of_port], items.at[of_port], by_operator[of_port])
            for piece in pieces(letters, plan.bounds.piece):
                yield DEAD_LETTERS, pack(piece, metadata)


def _waited(plan: Plan, items: Items, ordinal: np.ndarray) -> np.ndarray:
    """Whether each rejected tuple waited for a mark (`marks_in: aligned`). Its ordinal is that of the record that ended
    the wait, which another topic partition has sent.
    """
    waited = np.zeros(len(items), np.bool_)
    if not any(stream.marks_in == "aligned" for stream in plan.inputs):
        return waited
    inputs = {spec.name: spec.inputs for spec in plan.pipeline.operators}
    operators = items.tuples.column("operator").to_pylist()
    for operator in set(operators):
        waiting = np.array([name == operator for name in operators]) & (items.source >= 0)
        sender, source = topic_partition_of(ordinal[waiting]), items.source[waiting]
        inputs_of_operator = [read_from(plan.pipeline, name, source) for name in inputs.get(operator, ())]
        waited[waiting] = ~np.logical_or.reduce([origin == sender for origin in inputs_of_operator or [source]])
    return waited


def _offsets(ordinal: np.ndarray, firsts: Mapping[int, int]) -> np.ndarray:
    """The offset of the record that contained each tuple, or that caused an operator to make it. -1 for a timer."""
    offset = np.full(len(ordinal), -1)
    caused = ordinal != NO_ORDINAL
    first = first_of(ordinal[caused])
    offset[caused] = [firsts[number] for number in first.tolist()] + (ordinal[caused] - first) // NUMBERS
    return offset


def _letters(
    rows: pa.RecordBatch, ordinal: np.ndarray, offset: np.ndarray, at: np.ndarray, by_operator: np.ndarray
) -> pa.RecordBatch:
    words = zip(rows.column("operator").to_pylist(), rows.column("reason").to_pylist(), strict=True)
    values = {
        "ordinal": pa.array(ordinal),
        "reason": pa.array([of_operator(operator, reason) for operator, reason in words]),
        "timestamp": pa.array(at // MILLISECOND),
        "partition": pa.array(np.where(ordinal < 0, -1, topic_partition_of(ordinal)).astype(np.int32)),
        "offset": pa.array(offset),
        "key": pa.nulls(len(ordinal), pa.binary()),
        "value": rows.column("tuple").cast(pa.binary()),
        "headers": pa.nulls(len(ordinal)),
        "made": pa.array(by_operator),
    }
    return pa.RecordBatch.from_pydict(values)


def _ordinals(items: Items, ordinals: np.ndarray) -> np.ndarray:
    """The ordinal of the record that caused each item; NO_ORDINAL for an item that a timer caused."""
    if not len(ordinals):
        return np.full(len(items), NO_ORDINAL)
    return np.where(items.event < 0, NO_ORDINAL, ordinals[items.event])


def records(plan: Plan, stream: Stream, items: Items, ordinals: np.ndarray, bucket: int) -> pa.RecordBatch:
    """The records to write for the items of a stream in one bucket, one row for each record.

    at, ordinal      the operator clock when the item was made, and the ordinal of the record that caused it
                     (NO_ORDINAL: a timer)
    window           start of the timeInterval pane that made the item; only if the pipeline has such windows
    behind           whether the watermark behind the record caused the item, and not the record (`Items.behind`); only
                     if the pipeline has computed watermarks
    kind             TUPLE, WINDOW, FINAL, WATERMARK, EMPTY_FIRING or TUPLE_WITH_MARK
    partition        number of the topic partition to write to; BROADCAST for a final mark, an aligned mark, a watermark
    key              key of the window partition, or of the record that was read; null if there is none
    value            value of the record
    own_key, headers key and headers of the record; only if the pipeline file defines them for the stream
    stamp            timestamp of the record in milliseconds, UNUSABLE: the operator clock; only for a stream with a
                     `record_timestamp`
    """
    # A bucket that writes its own topic partitions needs all marks: those of other topic partitions are left out later.
    kind, kept = _kinds(stream, items, plan.buckets, 0 if stream.name in plan.parted else bucket)
    written = Records.of(stream, plan.pipeline.settings.registry)
    values = written.encode_values(items.tuples)
    columns = {
        "at": pa.array(items.at),
        "ordinal": pa.array(_ordinals(items, ordinals)),
        "kind": pa.array(kind),
        "partition": pa.array(_partitions(plan, stream, items)),
        "key": _keys(items),
        "value": values if len(values) == len(items) else _values(values, items),
    }
    if plan.panes:
        columns["window"] = pa.array(items.watermark)
    if items.behind is not None:
        columns["behind"] = pa.array(items.behind)
    own_keys = written.encode_keys(items.tuples)
    if own_keys is not None:
        spread = _spread(own_keys, items.kind == TUPLE)
        columns["own_key"] = pc.if_else(pa.array(items.kind == TUPLE), spread, columns["key"])
    if stream.headers:
        columns["headers"] = _headers(written.encode_headers(items.tuples), items.kind == TUPLE)
    if stream.record_timestamp is not None:
        columns["stamp"] = pa.array(_stamps(stream, items, plan.pipeline.settings.max_future))
    batch = pa.RecordBatch.from_pydict(columns)
    return batch if kept.all() else batch.filter(pa.array(kept))


def _kinds(stream: Stream, items: Items, buckets: int, bucket: int) -> tuple[np.ndarray, np.ndarray]:
    """The kind of record that each item becomes, and whether this bucket writes it (B9 to B11)."""
    kind = items.kind.copy()
    if buckets == 1:
        kind[kind == EMPTY_FIRING] = WINDOW
    # Every bucket has the marks that pass through, the final marks and the watermarks. Only bucket 0 writes them.
    kept = kind != KEY_MARK
    if bucket:
        kept &= (kind != FINAL) & (kind != WATERMARK) & ((kind != WINDOW) | (items.source == MADE))
    if not stream.watermarks:
        kept &= kind != WATERMARK
    if stream.marks == "none":
        kept &= (kind == TUPLE) | (kind == WATERMARK)
    elif stream.marks == "header":
        of_firing = _of_firing(items)
        kind[_before(items, of_firing)] = TUPLE_WITH_MARK
        kept &= ~of_firing & (items.kind != EMPTY_FIRING)
    return kind, kept


def _of_firing(items: Items) -> np.ndarray:
    """A mask of the marks that a firing made, without the marks that were read."""
    return (items.kind == WINDOW) & (items.source == MADE)  # type: ignore[no-any-return]


def _before(items: Items, marks: np.ndarray) -> np.ndarray:
    """The numbers of the tuples that directly precede these marks and belong to the same result as the mark: the same
    event or timer caused both, in the same window partition.

    A mark without such a tuple ends a firing without tuples. It is not put on the tuple of another result: that tuple
    may be in an earlier batch, so the outputs would depend on where batches end, or it may be an early result, which
    has no mark (F4).
    """
    at = np.flatnonzero(marks[1:])
    tied = (items.event[at] == items.event[at + 1]) & (items.at[at] == items.at[at + 1])
    tied &= items.key[at] == items.key[at + 1]
    return at[tied & (items.kind[at] == TUPLE)]  # type: ignore[no-any-return]


def _stamps(stream: Stream, items: Items, max_future: int) -> np.ndarray:
    """The timestamp of each item's record in milliseconds. UNUSABLE: the record gets the operator clock.

    A tuple has the time in its attribute, and the mark of its firing has the same time as the firing's last tuple. So a
    reader that takes its clock from the timestamps is not moved by the mark.
    """
    is_tuple = items.kind == TUPLE
    stamps = np.full(len(items), UNUSABLE)
    stamps[is_tuple] = not_later(of_attribute(stream, items.tuples), items.at[is_tuple], max_future)
    last = _before(items, _of_firing(items))
    stamps[last + 1] = stamps[last]
    return stamps


def _partitions(plan: Plan, stream: Stream, items: Items) -> np.ndarray:
    """The number of the topic partition of the stream's topic to which each item is written.

    An item of a window partition goes by the hash of its key; another item that an operator made goes to topic
    partition 0. An item that was read goes to the number of its own topic partition, modulo their number. Final marks,
    aligned marks and watermarks go to all topic partitions (BROADCAST).
    """
    partitions = plan.topic_partitions[stream.name]
    chosen = np.maximum(read_from(plan.pipeline, stream.name, items.source), 0) % np.int32(partitions)
    keyed = (items.source == MADE) & (items.key >= 0)
    if keyed.any():
        chosen[keyed] = partition_for(items.keys, partitions)[items.key[keyed]]
    chosen[(items.kind == FINAL) | (items.kind == WATERMARK) | (items.source == ALL)] = BROADCAST
    return chosen  # type: ignore[no-any-return]


def _keys(items: Items) -> pa.BinaryArray:
    without = items.key < 0
    return items.keys.take(pa.array(items.key, mask=without if without.any() else None))


def _headers(values: Mapping[str, pa.BinaryArray], is_tuple: np.ndarray) -> pa.MapArray:
    """The headers of each item, from the columns of header values of the tuples; null for a mark. A null is no header
    (NU5).
    """
    names, columns = list(values), pa.concat_arrays(list(values.values()))
    rows, count = int(np.count_nonzero(is_tuple)), len(values)
    in_rows = columns.take(pa.array(np.arange(rows * count).reshape(count, rows).T.ravel()))
    is_valid = in_rows.is_valid().to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(is_valid)])[:: max(count, 1)].astype(np.int32)
    keys = pa.array(names * rows, pa.string()).filter(pa.array(is_valid))
    headers = pa.MapArray.from_arrays(pa.array(offsets), keys, in_rows.drop_null())
    return headers.take(pa.array(np.cumsum(is_tuple) - 1, mask=~is_tuple))


def _values(values: pa.BinaryArray, items: Items) -> pa.BinaryArray:
    """The value of each item: `values` for tuples, the event time as text for watermarks, empty for other marks."""
    spread, is_watermark = _spread(values, items.kind == TUPLE), items.kind == WATERMARK
    if not is_watermark.any():
        return spread
    texts = pa.array([to_text(time) for time in items.watermark[is_watermark].tolist()]).cast(values.type)
    return pc.replace_with_mask(spread, pa.array(is_watermark), texts)


def _spread(values: pa.BinaryArray, is_tuple: np.ndarray) -> pa.BinaryArray:
    """One value for each item: a tuple gets its value from `values`, a mark an empty value."""
    empty = pa.array([b""], values.type)
    rows = np.where(is_tuple, np.cumsum(is_tuple) - 1, len(values))
    return pa.concat_arrays([values, empty]).take(pa.array(rows))


def report_of(
    operators: Sequence[Operator], streams: Mapping[str, Items], sizes: Mapping[str, tuple[int, int]]
) -> Counts:
    """The statistics of one bucket, by operator (see `Report.operators`).

    streams   the items read and the items emitted by operators, by stream
    sizes     the number of window partitions and of stored tuples, by operator

    Firings of empty windows are not counted: every bucket has one, and together they write at most one mark.
    """
    report: Counts = {}
    for operator in operators:
        emitted = [streams[output.stream] for output in operator.outputs if output.stream in streams]
        report[operator.name] = {
            "in": sum(streams[name].tuples.num_rows for name in operator.inputs if name in streams),
            "out": sum(items.tuples.num_rows for items in emitted),
            "windows": max((_fired(items) for items in emitted), default=0),
        }
        if operator.name in sizes:
            partitions, tuples = sizes[operator.name]
            report[operator.name] |= {"partitions": partitions, "tuples": tuples}
    return report


def _fired(items: Items) -> int:
    return int(np.count_nonzero((items.kind == WINDOW) & (items.source == MADE)))
