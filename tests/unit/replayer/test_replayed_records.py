"""Replays of Kafka records: plain lines, records in events, and topic partitions chosen by keys."""

from textwrap import dedent

import pytest

import sluice
from sluice.config.load import load_text
from sluice.model.errors import SluiceError
from sluice.replayer.event_file import EventError
from sluice.replayer.player import replay

PIPELINE = """
pipeline: one
streams:
  in: {topic: in, schema: {shop: string, x: int64}, key: {attributes: [shop]}, marks_in: topic_partition}
  out: {topic: out}
operators:
  - {name: only, aggregate: in, window: "tumbling, punct()", output: {out: {n: Count(), shops: Collect(shop)}}}
"""
KEYLESS = PIPELINE.replace(", key: {attributes: [shop]}", "")


def played(events, text=PIPELINE, **how):
    return list(replay(load_text(text, "p.yaml"), events, **how))


def record(at, value, key="A", **more):
    return {"at": at, "record": {"value": value, "key": key} | more}


def test_a_record_is_decoded_as_in_the_service():
    events = [record(1, '{"x": 1}'), record(2, {"x": 2}, "B", headers={"sluice-mark": "window"})]
    assert played(events) == [
        {"after": 1, "stream": "out", "tuple": {"n": 2, "shops": ["A", "B"]}},
        {"after": 1, "stream": "out", "punct": "window"},
    ]


def test_records_without_an_attribute_that_has_a_default():
    text = PIPELINE.replace("key: {attributes: [shop]}", "key: {attributes: [shop]}, defaults: {x: 0}")
    (found, _) = played([record(1, {}), record(2, {"x": None}, headers={"sluice-mark": "window"})], text)
    assert found["tuple"] == {"n": 2, "shops": ["A", "A"]}


def test_bytes_are_base64():
    events = [record(1, {"base64": "eyJ4IjogMX0="}), {"at": 2, "punct": "window"}]
    assert played(events)[0]["tuple"] == {"n": 1, "shops": ["A"]}


def test_bad_records_are_dead_letters_with_the_reasons_of_the_service():
    events = [
        record(1, "no"), record(2, None), record(3, {"x": "1"}), record(4, {"x": 1}, None),
        record(5, {"x": 1}, headers={"sluice-mark": "end"}), record(6, "soon", headers={"sluice-mark": "watermark"}),
    ]  # fmt: skip
    letters = [one["dead_letter"] for one in played(events)]
    assert [letter["reason"].partition(": ")[0] for letter in letters] == [
        "not JSON", "no value", "wrong type", "missing attribute", "unknown mark", "bad watermark",
    ]  # fmt: skip
    assert letters[2] == {
        "stream": "in", "topic": "in", "location": "event 2", "reason": 'wrong type: x: expected int64, got "1"',
        "value": '{"x":"1"}', "key": "A",
    }  # fmt: skip


def test_the_mark_of_a_bad_record_counts():
    events = [record(1, {"x": 1}), record(2, "no", headers={"sluice-mark": "window"})]
    assert [one.get("punct") or [*one][1] for one in played(events)] == ["dead_letter", "stream", "window"]


def test_a_record_without_value_is_a_mark_alone():
    events = [record(1, {"x": 1}), record(2, None, None, headers={"sluice-mark": "window"})]
    assert [one.get("punct", "tuple") for one in played(events)] == ["tuple", "window"]


SENT = """
pipeline: one
streams:
  in: {topic: in, schema: {x: int64, sent: timestamp}, record_timestamp: sent}
  out: {topic: out}
operators:
  - {name: only, map: in, output: {out: {x: x, sent: sent}}}
"""


def test_a_record_has_the_time_of_its_event_or_a_timestamp_of_its_own():
    events = [
        {"at": 1.5, "record": {"value": {"x": 1}}},
        {"at": 2, "record": {"value": {"x": 2}, "timestamp": 0.001}},
        {"at": 3, "record": {"value": {"x": 3}, "timestamp": "2024-04-01T10:00:00.123Z"}},
    ]
    assert [one["tuple"]["sent"] for one in played(events, SENT)] == [
        "1970-01-01T00:00:01.5Z", "1970-01-01T00:00:00.001Z", "2024-04-01T10:00:00.123Z",
    ]  # fmt: skip


def test_a_timestamp_before_1970_is_none_as_in_the_service():
    (found,) = played([{"at": 0, "record": {"value": {"x": 1}, "timestamp": -0.001}}], SENT)
    assert found["dead_letter"]["reason"] == "missing attribute: sent: expected a record with a timestamp, got none"


@pytest.mark.parametrize(
    "content", [5, {"values": 1}, {"value": {"base64": "?"}}, {"headers": [1]}, {"value": "{}", "timestamp": "noon"}]
)
def test_a_wrong_record_is_an_error(content):
    with pytest.raises(EventError, match="event 0: "):
        played([{"at": 1, "record": content}])


# ---- topic partitions ------------------------------------------------------------------------------------------------


def places(events, text=PIPELINE, **how):
    """For each of three topic partitions the shops whose windows a mark in it closes: those with a tuple from it."""
    text = text.replace("tumbling, punct()", "tumbling, punct(), partitioned").replace(
        "output:", "partition_by: [shop], output:"
    )
    marks = [{"at": 9, "punct": "window", "topic_partition": partition} for partition in range(3)]
    found = [[] for _ in range(3)]
    for one in played([*events, *marks], text, **how):
        if "tuple" in one:
            found[one["after"] - len(events)] += one["tuple"]["shops"]
    return [sorted(shops) for shops in found]


def test_keys_choose_the_topic_partitions_of_kafka_clients():
    tuples = [{"at": 1, "tuple": {"shop": shop, "x": 1}} for shop in "ABCDEFG"]
    records = [record(1, {"x": 1}, shop) for shop in "ABCDEFG"]
    expected = [[s for s in "ABCDEFG" if (murmur2(s.encode()) & 0x7FFFFFFF) % 3 == number] for number in range(3)]
    assert sum(map(bool, expected)) > 1
    assert places(tuples, partitions=3) == expected
    assert places(records, partitions=3) == expected


def murmur2(data):
    """Kafka's `Utils.murmur2`, written anew from its definition."""
    m, h = 0x5BD1E995, 0x9747B28C ^ len(data)
    for start in range(0, len(data) - len(data) % 4, 4):
        k = int.from_bytes(data[start : start + 4], "little") * m & 0xFFFFFFFF
        k = (k ^ (k >> 24)) * m & 0xFFFFFFFF
        h = (h * m & 0xFFFFFFFF) ^ k
    rest = data[len(data) - len(data) % 4 :]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * m & 0xFFFFFFFF
    h = (h ^ (h >> 13)) * m & 0xFFFFFFFF
    return h ^ (h >> 15)


def test_a_named_topic_partition_stays():
    tuples = [{"at": 1, "tuple": {"shop": shop, "x": 1}, "topic_partition": 1} for shop in "ABCD"]
    assert places(tuples, partitions=3) == [[], ["A", "B", "C", "D"], []]


def test_tuples_without_key_take_turns():
    tuples = [{"at": 1, "tuple": {"shop": shop, "x": 1}} for shop in "ABCD"]
    assert places(tuples, text=KEYLESS, partitions=3) == [["A", "D"], ["B"], ["C"]]


def test_the_key_of_an_event():
    tuples = [{"at": 1, "tuple": {"shop": shop, "x": 1}, "key": "one"} for shop in "ABCD"]
    found = places(tuples, text=KEYLESS, partitions=3)
    assert sorted(found) == [[], [], ["A", "B", "C", "D"]]


def test_a_mark_without_topic_partition_is_sent_to_each():
    tuples = [{"at": 1, "tuple": {"shop": shop, "x": 1}} for shop in "ABCD"]
    found = played([*tuples, {"at": 2, "punct": "window"}], text=KEYLESS, partitions=3)
    assert sum(one["tuple"]["n"] for one in found if "tuple" in one) == 4


# ---- plain records ---------------------------------------------------------------------------------------------------

PLAIN = KEYLESS.replace("x: int64", "x: int64, t: timestamp").replace("tumbling, punct()", "tumbling, count(2)")


def plain(tmp_path, lines, text=PLAIN, at="t", **how):
    file = tmp_path / "records.jsonl"
    file.write_text(dedent(lines))
    return played(file, text, name="records.jsonl", at=at, **how)


def test_plain_records(tmp_path):
    lines = """\
        {"shop": "A", "x": 1, "t": "2024-01-01T00:00:01Z"}

        {"shop": "B", "x": "?", "t": "2024-01-01T00:00:02Z"}
        no
        {"shop": "B", "x": 2, "t": 1704067205}
        """
    found = plain(tmp_path, lines)
    letters = [one["dead_letter"] for one in found if "dead_letter" in one]
    assert [letter["location"] for letter in letters] == ["records.jsonl:3", "records.jsonl:4"]
    assert {"after": 3, "stream": "out", "tuple": {"n": 2, "shops": ["A", "B"]}} in found


@pytest.mark.parametrize(
    ("attribute", "field", "first"),
    [
        ("t: {type: timestamp, unit: ms}", "t", 1704067201000),
        ("t: {from: ts, type: timestamp, unit: us}", "ts", 1704067201000000),
    ],
    ids=["milliseconds", "microseconds of a member of another name"],
)
def test_the_time_of_plain_records_in_the_unit_of_the_attribute(tmp_path, attribute, field, first):
    lines = "".join(f'{{"shop": "A", "x": 1, "{field}": {first + more}}}\n' for more in (0, 1))
    assert {"after": 1, "stream": "out", "tuple": {"n": 2, "shops": ["A", "A"]}} in plain(
        tmp_path, lines, PLAIN.replace("t: timestamp", attribute), at=field
    )


def test_plain_records_from_python(tmp_path):
    (tmp_path / "p.yaml").write_text(PLAIN)
    (tmp_path / "r.jsonl").write_text('{"shop": "A", "x": 1, "t": 5}\n{"shop": "B", "x": 1, "t": 6}\n')
    found = list(sluice.replay(tmp_path / "p.yaml", tmp_path / "r.jsonl", at="t", partitions=2))
    assert found[0]["tuple"] == {"n": 2, "shops": ["A", "B"]}


def test_the_time_may_go_back(tmp_path):
    lines = """\
        {"shop": "A", "x": 1, "t": 5}
        {"shop": "B", "x": 1, "t": 3}
        """
    assert plain(tmp_path, lines)[0]["after"] == 1


def test_the_time_is_the_timestamp_of_the_record_also_if_it_goes_back(tmp_path):
    lines = """\
        {"x": 1, "t": 5.25}
        {"x": 2, "t": 3}
        {"x": 3}
        """
    assert [one["tuple"]["sent"] for one in plain(tmp_path, lines, SENT)] == [
        "1970-01-01T00:00:05.25Z", "1970-01-01T00:00:03Z", "1970-01-01T00:00:05.25Z",
    ]  # fmt: skip


def test_a_timer_counts_from_the_first_record(tmp_path):
    text = PLAIN.replace("count(2)", "time(60)")
    lines = """\
        {"shop": "A", "x": 1, "t": 1704067200}
        {"shop": "B", "x": 1, "t": 1704067261}
        """
    assert plain(tmp_path, lines, text)[0] == {"after": 1, "stream": "out", "tuple": {"n": 1, "shops": ["A"]}}


def test_an_event_time_in_milliseconds(tmp_path):
    text = PLAIN.replace("t: timestamp}", "t: int64}, event_time: t").replace("count(2)", "time(60)")
    lines = """\
        {"shop": "A", "x": 1, "t": 1704067200000}
        {"shop": "B", "x": 1, "t": 1704067261000}
        """
    assert plain(tmp_path, lines, text)[0]["after"] == 1


def test_a_wrong_name_of_the_time(tmp_path):
    with pytest.raises(EventError, match=r'records.jsonl:1: expected seconds .* in "time", got null'):
        plain(tmp_path, '{"shop": "A", "x": 1, "t": 5}', at="time")


def test_the_stream_of_several(tmp_path):
    two = PLAIN.replace("streams:", "streams:\n  other: {topic: other, schema: {x: int64}}\n  some: {topic: some}")
    two += "  - {name: more, map: other, output: [some]}\n"
    with pytest.raises(SluiceError, match=r"--stream.: one of"):
        plain(tmp_path, "{}", two)
    assert plain(tmp_path, '{"x": 1, "t": 0}', two, stream="other") == [
        {"after": 0, "stream": "some", "tuple": {"x": 1}}
    ]  # fmt: skip


def test_plain_records_without_at_are_recognised():
    with pytest.raises(EventError, match=r"event 0: expected an event with `at` and the keys .*--at FIELD"):
        played([{"shop": "A", "x": 1}])


def test_the_first_wrong_line_is_named():
    """The attribute `shop` is checked before `x`, but the wrong `x` is in an earlier event."""
    events = [{"at": 1, "tuple": {"shop": "A", "x": "1"}}, {"at": 2, "tuple": {"shop": 5, "x": 1}}, {"at": 0}]
    with pytest.raises(EventError, match='event 0: attribute "x" must be int64'):
        played(events)
