"""Routing without Spark: what each bucket gets of a topic partition's records."""

from __future__ import annotations

import json
from base64 import b64encode
from types import MappingProxyType, SimpleNamespace

import pyarrow as pa
import pytest

from sluice.batch.packed_rows import COUNTS, DEAD_LETTERS, RECORDS, labels, ordinal, unpack
from sluice.batch.partition_router import arrived_rows
from sluice.batch.partition_router import route_records as spread
from sluice.batch.query_plan import Plan
from sluice.columns.key_bytes import partition_for
from sluice.config.load import load_text
from sluice.kafka.batch_report import Planned, Report
from sluice.kafka.librdkafka.column_consumer import of_messages

PIPELINE = """
pipeline: p
kafka: {bootstrap.servers: nowhere}
streams:
  in: {topic: in, schema: {key: string, number: int64}}
  out: {topic: out}
operators:
  - name: one
    aggregate: in
    window: tumbling, count(2), partitioned
    partition_by: [key]
    output: {out: {key: Last(key)}}
"""

SECOND = 1_000_000_000
#: seconds that a record may be ahead of its batch, unless the file says otherwise
HOUR = 3600


def record(key="a", number=1, *, at=0, mark=None, value=b"", offset=7):
    """A record at so many seconds: a tuple, or a mark with a value."""
    return {
        "key": None,
        "value": value if mark else json.dumps({"key": key, "number": number}).encode(),
        "headers": json.dumps([{"key": "sluice-mark", "value": b64encode(mark.encode()).decode()}]) if mark else None,
        "ordinal": ordinal(0, 1), "offset": offset, "timestamp": round(at * 1_000_000),
    }  # fmt: skip


SCHEMA = pa.schema([
    ("key", pa.binary()), ("value", pa.binary()), ("headers", pa.string()), ("ordinal", pa.int64()),
    ("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC")),
])  # fmt: skip


def routed(*batches, buckets=1, text=PIPELINE):
    """Per bucket and Arrow batch the rows (as they are packed) and what is said about them; and the rest."""
    plan = Plan(load_text(text, "p"), "q", "s", "c", buckets, {"in": 2, "out": 1})
    found = {"rest": []}
    for batch in spread(plan, 0, [pa.RecordBatch.from_pylist(batch, SCHEMA) for batch in batches]):
        for row in batch.to_pylist():
            if row["kind"] == RECORDS:
                found.setdefault(labels(buckets).index(row["bucket"]), []).append(unpack(row["packed"]))
            else:
                found["rest"].append((row["kind"], row["packed"]))
    return found


NOW_IN_NANOSECONDS = 1_764_000_000_000_000_000


def message(offset, milliseconds, values=MappingProxyType({"key": "a", "number": 1})):
    """A record of the Kafka client."""
    value = json.dumps(dict(values)).encode()
    return SimpleNamespace(
        key=lambda: None, value=lambda: value, headers=lambda: None, offset=lambda: offset,
        timestamp=lambda: (1, milliseconds), topic=lambda: "in", partition=lambda: 0,
    )  # fmt: skip


def arrived(ends, messages):
    """The packed rows of the only bucket, of a batch that was planned in 2025."""
    plan = Plan(load_text(PIPELINE, "p"), "q", "s", "c", 1, {"in": 1, "out": 1})
    before, now = (Planned(NOW_IN_NANOSECONDS, {("in", 0): end}, 0) for end in (0, ends[0]))
    return arrived_rows(plan, before, now, {("in", 0): of_messages(messages)})[0]


def stamps(found):
    return [stamp // SECOND for rows, _ in found for stamp in rows.column("@stamp").to_pylist()]


def test_a_row_is_stamped_with_the_newest_time_of_its_topic_partition():
    found = routed([record(at=1), record(at=5), record(at=3)], [record(at=2), record(at=6)])
    assert stamps(found[0]) == [1, 5, 5, 5, 6]


@pytest.mark.parametrize("milliseconds", [NOW_IN_NANOSECONDS, 2**63 - 1])
def test_a_timestamp_that_is_no_time_is_too_far_ahead(milliseconds):
    """A producer may write nanoseconds where Kafka expects milliseconds."""
    found = arrived({0: 10}, [message(0, milliseconds)])
    (letters,) = [unpack(packed)[0].to_pylist() for kind, packed in found if kind == DEAD_LETTERS]
    (reason,) = [letter["reason"] for letter in letters]
    assert reason == "too far ahead: its timestamp is more than 3600 s (max_future) ahead of the time of the batch"


@pytest.mark.parametrize("milliseconds", [-(10**13), -(2**63)])
def test_a_timestamp_before_all_times_is_the_earliest_one(milliseconds):
    found = arrived({0: 11}, [message(0, milliseconds), message(1, 1000)])
    ((rows, _),) = [unpack(packed) for kind, packed in found if kind == RECORDS]
    assert [stamp // SECOND for stamp in rows.column("@stamp").to_pylist()] == [-(2**63) // SECOND, 1]


def test_the_report_has_the_oldest_and_the_newest_timestamp():
    found = routed([record(at=3), record(at=5), record(at=2)])
    (report,) = [Report.from_json(bytes(packed)) for kind, packed in found["rest"] if kind == COUNTS]
    assert (report.oldest, report.newest) == (2 * SECOND, 5 * SECOND)


def test_rows_are_numbered_by_offset_through_all_batches():
    found = routed([record(offset=7), record(offset=8)], [record(offset=10)])
    assert [n for rows, _ in found[0] for n in rows.column("@number").to_pylist()] == [1, 5, 13]
    assert [(int(about["number"]), int(about["offset"])) for _, about in found[0]] == [(1, 7), (13, 7)]


def test_every_bucket_knows_the_times_of_the_topic_partition():
    found = routed([record("a", at=3), record("a", at=9)], buckets=4)
    for bucket in range(4):
        ((_, about),) = found[bucket]
        assert (int(about["start"]), int(about["end"])) == (3 * SECOND, 9 * SECOND)
    assert sorted(found[bucket][0][0].num_rows for bucket in range(4)) == [0, 0, 0, 2]


def test_a_key_is_always_in_the_same_bucket_and_marks_in_all():
    found = routed([record("a", at=1), record("b", at=2), record(mark="window", at=3), record("a", at=4)], buckets=3)
    of_a, of_b = partition_for(pa.array([b"a", b"b"]), 3)
    for bucket in range(3):
        expected = [key for key, own in (("a", of_a), ("b", of_b), (None, bucket), ("a", of_a)) if own == bucket]
        assert found[bucket][0][0].column("key").to_pylist() == expected


@pytest.mark.parametrize("buckets", [1, 2])
@pytest.mark.parametrize("mark", [{"mark": "clock"}, {"mark": "watermark", "value": b"5"}])
def test_a_clock_mark_moves_the_clock_and_goes_no_further(mark, buckets):
    """Nor does a watermark where there is no event time."""
    found = routed([record(at=1), record(**mark, at=8)], buckets=buckets)
    for bucket in range(buckets):
        ((rows, about),) = found[bucket]
        assert int(about["end"]) == 8 * SECOND
        assert rows.column("@kind").to_pylist() in ([0], [])


def test_a_clock_mark_alone_moves_the_clock():
    ((rows, about),) = routed([record(mark="clock", at=8)])[0]
    assert rows.num_rows == 0
    assert (int(about["start"]), int(about["end"])) == (8 * SECOND, 8 * SECOND)


TIMED = PIPELINE.replace("number: int64}}", "number: int64}, event_time: number}")


@pytest.mark.parametrize("buckets", [1, 3])
def test_a_watermark_comes_to_every_bucket(buckets):
    found = routed([record(), record(mark="watermark", value=b"5.5")], buckets=buckets, text=TIMED)
    for bucket in range(buckets):
        rows = found[bucket][0][0].to_pylist()
        assert [row["@watermark"] for row in rows if row["@kind"]] == [5_500_000_000]


def test_a_watermark_without_a_time_is_a_dead_letter_and_moves_nothing():
    found = routed([record(at=1), record(mark="watermark", value=b"noon", at=8)], text=TIMED)
    assert stamps(found[0]) == [1]
    ((_, letters),) = [row for row in found["rest"] if row[0] == DEAD_LETTERS]
    expected = "bad watermark: its value is neither seconds since 1970 nor a time in ISO 8601"
    assert unpack(letters)[0].column("reason").to_pylist() == [expected]


def test_a_record_from_beyond_the_future_moves_nothing():
    found = routed([record(at=1), record(at=HOUR + 1), record(at=2), record(at=HOUR)])
    assert stamps(found[0]) == [1, 2, HOUR]
    assert [kind for kind, _ in found["rest"]] == [COUNTS, DEAD_LETTERS]


def test_a_dead_letter_moves_nothing():
    found = routed([record(at=1), record(number="x", at=50), record(at=2)])
    assert stamps(found[0]) == [1, 2]


def test_where_all_are_dead_letters_no_bucket_is_told_anything():
    found = routed([record(number="x")])
    assert found.keys() == {"rest"}


def test_records_are_counted():
    found = routed([record(), record(), record(mark="window"), record(mark="clock"), record(number="x")], buckets=2)
    assert Report.from_json(dict(found["rest"])[COUNTS]).read == {"in": {"tuple": 2, "window": 1, "clock": 1}}


SENT = PIPELINE.replace("number: int64}}", "number: int64, sent: timestamp}, record_timestamp: sent}")


def test_an_attribute_has_the_timestamp_of_its_own_record():
    found = routed([record(at=1), record(at=5.001), record(mark="window", at=4), record(at=3)], text=SENT)
    ((rows, _),) = found[0]
    times = rows.column("sent").view(pa.int64()).to_pylist()
    assert times == [SECOND, 5_001_000_000, None, 3 * SECOND], "the stamp of the third is 5 s, as the clock says"


#: microseconds; in nanoseconds they are beyond int64
IN_3000 = 32_503_680_000_000_000


@pytest.mark.parametrize("text", [PIPELINE, SENT])
def test_a_record_from_a_year_beyond_the_range_of_times_is_too_far_ahead(text):
    found = routed([record(at=1), record() | {"timestamp": IN_3000}, record(at=2)], text=text)
    assert stamps(found[0]) == [1, 2]
    assert [kind for kind, _ in found["rest"]] == [COUNTS, DEAD_LETTERS]


def in_an_hour(event_time, milliseconds):
    """The counts and reasons of two tuples that a service reads now, the second so far ahead of its present time."""
    text = f"""
pipeline: p
streams:
  in: {{topic: in, schema: {{ts: int64}}, event_time: {event_time}}}
  out: {{topic: out}}
dead_letters: dead
operators:
  - {{name: w, aggregate: in, window: "timeInterval, intervalDuration(10)", output: {{out: {{n: Count()}}}}}}
""".replace("  out: {topic: out}", "  out: {topic: out}\n  dead: {topic: dead}")
    plan = Plan(load_text(text, "p"), "q", "s", "c", 1, {"in": 1, "out": 1})
    now = NOW_IN_NANOSECONDS // 10**6
    before, planned = (Planned(NOW_IN_NANOSECONDS, {("in", 0): end}, 0) for end in (0, 2))
    messages = [message(n, now, {"ts": now + ahead}) for n, ahead in enumerate((0, milliseconds))]
    found = arrived_rows(plan, before, planned, {("in", 0): of_messages(messages)})[0]
    rows = sum(unpack(packed)[0].num_rows for kind, packed in found if kind == RECORDS)
    letters = [one for kind, packed in found if kind == DEAD_LETTERS for one in unpack(packed)[0].to_pylist()]
    return rows, [letter["reason"] for letter in letters]


@pytest.mark.parametrize(
    ("more", "milliseconds", "kept"),
    [
        ("lag: 5", 3_600_000, True),
        ("lag: 5", 3_600_001, False),
        ("lag: 5, max_future: none", 10**12, True),
        ("lag: 5, max_future: 1d", 10**12, True),  # the engine compares it with the operator clock
        ("minimum_gap: 1", 10**12, True),  # no tuple moves the watermark
    ],
)
def test_a_tuple_whose_time_is_an_hour_ahead_would_make_all_others_late(more, milliseconds, kept):
    rows, reasons = in_an_hour(f"{{attribute: ts, {more}}}", milliseconds)
    reason = "too far ahead: ts is more than 3600 s (max_future) ahead of the time of the batch"
    assert (rows, reasons) == ((2, []) if kept else (1, [reason]))
