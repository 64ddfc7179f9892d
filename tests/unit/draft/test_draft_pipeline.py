"""Pipeline files that are drafted from records of a topic."""

import json
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.config.load import check_text, load_text
from sluice.draft.draft_pipeline import Traits, draft
from sluice.draft.sampled_records import DraftError, Sampled, sample
from sluice.model.members import path_of
from sluice.replayer.player import replay

KAFKA = {"bootstrap.servers": "localhost:9092"}


def drafted(records, topic="trades", kafka=KAFKA):
    return draft(topic, sample(topic, records, {}), "trades.yaml", kafka, {})


def of(*documents, keys=None):
    """The text that is drafted from these objects; `keys` has the key of each record."""
    return drafted([
        Sampled(json.dumps(document).encode(), key if key is None else key.encode())
        for document, key in zip(documents, keys or [None] * len(documents), strict=True)
    ])  # fmt: skip


def pipeline(text):
    return load_text(text, "trades.yaml", environment=None)


def test_the_whole_text():
    trades = [
        {
            "symbol": "IBM",
            "price": 1.5,
            "size": 3,
            "time": "2013-01-01T10:00:00Z",
            "note": "x",
            "user-id": 1,
            "tags": [],
        },
        {"symbol": "IBM", "price": 2, "size": 4, "time": "2013-01-01T10:00:01Z", "at": {"x": 1}, "user-id": 2},
        {"symbol": "SAP", "price": 3.5, "size": 5, "time": "2013-01-01", "note": None, "user-id": 3},
        {"symbol": "SAP", "price": 3.5, "size": 5, "time": "2013-01-02", "note": "a", "user-id": 3},
    ]
    records = [*(Sampled(json.dumps(one).encode(), None) for one in trades), Sampled(b"[1]", None)]
    assert (
        drafted(records, kafka=KAFKA | {"sasl.password": "hunter2"})
        == """\
# A first pipeline for topic trades, drafted from 5 records. Lines with # are
# suggestions; `sluice check trades.yaml` checks the file after a change.
# key: symbol, which has several records for most of its values
# time: time, only suggested as event time: the records are hours out of order
# missing values: null
# 1 of the 5 records are no JSON objects: such records become dead letters.
pipeline: trades
streams:
  trades:                                   # the input: a tuple for each record
    topic: trades
    schema:
      symbol: string                        # such as "IBM"
      price: float64                        # such as 1.5
      size: int64                           # such as 3
      time: timestamp                       # such as "2013-01-01T10:00:00Z"
      note: string?                         # such as "x"; missing or null in 2 of 4 records
      user_id: {from: '["user-id"]', type: int64} # such as 1
      at_x: {from: at.x, type: int64?}      # such as 1; missing or null in 3 of 4 records
      # left out: "tags": its lists are always empty
    # event_time: {attribute: time, lag: 10s} # for windows over the time in the records
  results: {topic: trades.results}          # the output; a start creates the topic
  dead: {topic: trades.dead}                # records that cannot be used, with the reason
operators:
  - name: last_ten
    aggregate: trades
    window: sliding, count(10), partitioned # the last ten tuples of each symbol, at each tuple
    # window: tumbling, time(1m), partitioned # each minute of the clock
    # window: timeInterval, intervalDuration(1m), partitioned # each minute of event time
    partition_by: [symbol]
    output:
      results:
        symbol: symbol
        tuples: Count()
        average_price: Average(price)
dead_letters: dead
kafka:
  bootstrap.servers: "localhost:9092"
  sasl.password: ${KAFKA_SASL_PASSWORD}     # an environment variable
"""
    )


@pytest.mark.parametrize(
    "times",
    [["2013-01-01", "2013-01-02"], [1_700_000_000_000, 1_700_000_001_000], ["13/02/2013 10:00:00"] * 2],
    ids=["ISO 8601", "milliseconds", "a pattern"],
)
def test_the_suggestions_are_right_when_the_signs_of_comments_are_removed(times):
    text = of(*({"user": user, "time": time} for user in ("a", "b") for time in times), {"user": "a"})
    chosen = text.replace("# event_time:", "event_time:").replace("    window: sliding", "    # window: sliding")
    assert check_text(chosen.replace("# window: timeInterval", "window: timeInterval"), "f").problems == ()
    tumbling = text.replace("    window: sliding", "    # window: sliding")
    assert check_text(tumbling.replace("# window: tumbling", "window: tumbling"), "f").problems == ()


def test_without_a_time_in_the_records_their_timestamp_is_suggested():
    text = of({"x": 1, "sent": "a"}, {"x": 2, "sent": "b"})
    chosen = text
    for suggested in ("sent2: timestamp", "record_timestamp: sent2", "event_time: {attribute: sent2"):
        assert f"# {suggested}" in chosen
        chosen = chosen.replace(f"# {suggested}", suggested)
    chosen = chosen.replace("    window: sliding", "    # window: sliding")
    assert check_text(chosen.replace("# window: timeInterval", "window: timeInterval"), "f").problems == ()


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ([True, False], "boolean"), ([1, 2], "int64"), ([1, 2.5], "float64"), ([1, 2**70], "decimal(38, 0)"),
        (["a", "b"], "string"), (["7.10", "0.25"], "decimal(2)"), ([1, "a"], "json"), ([[1], []], "list<int64>"),
        (["2013-01-01", "2013-01-01T10:00Z"], "timestamp"), (["2013-01-01", "later"], "string"), ([1, None], "int64?"),
    ],
)  # fmt: skip
def test_types(values, type_):
    assert str(dict(pipeline(of(*({"x": value} for value in values))).streams["trades"].schema)["x"]) == type_


@pytest.mark.parametrize(
    ("values", "row"),
    [
        ([1_700_000_000_000, 1_600_000_000_000], "ts: {type: timestamp, unit: ms}"),
        ([1_700_000_000_000_000], "ts: {type: timestamp, unit: us}"),
        ([1_700_000_000_000_000_000], "ts: {type: timestamp, unit: ns}"),
        ([1_700_000_000], "ts: {type: timestamp, unit: s}"),
        ([1_700_000_000.5], "ts: {type: timestamp, unit: s}"),
        (["1700000000000"], "ts: {type: timestamp, unit: ms, coerce: true}"),
        (["13/02/2013 10:00:00"], 'ts: {type: timestamp, pattern: "%d/%m/%Y %H:%M:%S"}'),
        ([1_700_000_000_000, 7], None),
    ],
    ids=[
        "milliseconds", "microseconds", "nanoseconds", "seconds", "seconds with a fraction", "a text", "a pattern",
        "not all are times",
    ],
)  # fmt: skip
def test_a_value_that_may_be_a_time_is_suggested_as_event_time(values, row):
    text = of(*({"ts": value, "x": 1.0} for value in values))
    assert ("    # event_time: {attribute: ts, lag: 10s}" in text) is (row is not None)
    assert row is None or f"      {row} " in text
    assert "average_x" in text, "no average of times is computed"


@pytest.mark.parametrize(
    ("values", "seen"),
    [
        ([1, 2, True, "n/a", 5, 6], 'number in 4, boolean in 1 (such as true), text in 1 (such as "n/a")'),
        (["a", 1, "2013-01-01"], "text in 2, number in 1 (such as 1)"),
        ([[1], True, [2]], "list in 2, boolean in 1 (such as true)"),
        ([{"a": 1}, 1, 2], 'number in 2, object in 1 (such as {"a": 1})'),
    ],
)
def test_values_of_several_kinds_are_json(values, seen):
    (line,) = [line for line in of(*({"x": value, "y": 1} for value in values)).splitlines() if "      x: json" in line]
    assert line.endswith(f"the values are {seen}")


@pytest.mark.parametrize("topic", ["0E0", "1_0", ".5", "-1", "1e3", "0x1F", "a.1"])
def test_a_topic_that_looks_like_a_number_is_a_text(topic):
    text = drafted([Sampled(b'{"x": 1}', None)], topic)
    (stream,) = load_text(text, "f.yaml", environment=None).inputs
    assert stream.topic == topic


@pytest.mark.parametrize(
    ("usual", "odd", "type_", "comment"),
    [
        (list(range(999)), ["n/a"], "int64", 'such as 0; 1 of 1000 records is a dead letter, such as "n/a"'),
        (list(range(198)), ["-", "n/a"], "int64", 'such as 0; 2 of 200 records are dead letters, such as "-"'),
        ([1, 2.5] * 99, ["n/a", "-"], "float64", 'such as 1; 2 of 200 records are dead letters, such as "n/a"'),
        ([1] * 197 + [0.5], ["n/a"], "float64", 'such as 1; 1 of 199 records is a dead letter, such as "n/a"'),
        (["a"] * 99, [7], "string", 'such as "a"; 1 of 100 records is a dead letter, such as 7'),
        (["2013-01-01"] * 99, ["later"], "string", 'such as "later"'),
    ],
    ids=["int64", "two other types", "float64", "few with a point", "string", "all are strings"],
)
def test_the_type_of_nearly_all_values_is_taken(usual, odd, type_, comment):
    text = of(*({"x": value} for value in [*odd, *usual]))
    (line,) = [line for line in text.splitlines() if line.startswith("      x: ")]
    assert line.split(" # ")[1] == comment
    assert str(dict(pipeline(text).streams["trades"].schema)["x"]) == type_


def test_less_than_99_of_100_are_not_nearly_all_values():
    text = of({"x": "n/a", "y": 1}, {"x": "-", "y": 1}, *({"x": 1, "y": 1} for _ in range(190)))
    assert "      x: {type: string, coerce: true} " in text


def test_the_average_of_numbers_among_which_are_words():
    text = of(*({"k": f"k{n % 2}", "wind": "VRB" if n % 4 == 0 else 10 * n} for n in range(20)))
    assert "wind: {type: string, coerce: true} " in text
    assert "`try(float64(wind))` is its number, null for another text" in text
    assert "average_wind: Average(try(float64(wind)))" in text


def test_an_empty_text_among_numbers_is_null():
    text = of(*({"k": f"k{n % 2}", "price": "" if n % 4 == 0 else f"{n}.50"} for n in range(20)))
    assert "price: {type: decimal(2)?, coerce: true} " in text
    assert "missing, null or empty in 5 of 20 records" in text


BLOCK = '{"schema": {"type": "struct"}, "payload": {"id": "%s"}}'


@pytest.mark.parametrize(
    ("keys", "rows"),
    [
        ([BLOCK % "a", BLOCK % "b"], ["id: {from: key.payload.id, type: string}", "partition_by: [id]"]),
        (['{"id": "a"}', '{"id": "b"}'], ["id: {from: key.id, type: string}", "partition_by: [id]"]),
        (['{"id": "a"}', "b"], ["key: string", "partition_by: [key]"]),
        (['{"id": [1]}', '{"id": [2]}'], ["last_ten"]),
    ],
    ids=["with a schema", "objects", "objects and texts", "lists in objects"],
)
def test_keys_in_several_forms(keys, rows):
    text = drafted([Sampled(b'{"x": 1.5}', keys[n % 2].encode()) for n in range(8)])
    assert [row for row in rows if row not in text] == []
    assert check_text(text, "f.yaml").problems == ()


@pytest.mark.parametrize("name", ["null", "true", "on", "yes", "~"])
def test_a_member_whose_name_is_a_word_of_yaml(name):
    stream = pipeline(of({name: 1.5})).streams["trades"]
    ((attribute, _),) = stream.schema
    assert path_of(attribute, dict(stream.members)) == (name,)


def test_decimals_beside_those_of_connect_are_other_types():
    scaled, lines = {"scale": 2, "value": "BNI="}, [{"net": "1.50"}, {"net": "2.50"}]
    text = of(*({"price": scaled, "fee": f"{n}.50", "wei": 10**20 + n, "lines": lines} for n in range(3)))
    rows = ['price: "decimal(38, 2)"', "fee: {type: float64, coerce: true}", "wei: {type: string, coerce: true}"]
    rows.append("lines: json")
    assert [row for row in rows if row not in text] == []


def test_lists_with_names_of_other_letters():
    file = pipeline(of(*({"größen": [{"k": "a", "price": n / 4}] * (1 + n % 2)} for n in range(8))))
    assert [operator.name for operator in file.operators] == ["last_ten", "each_gren", "last_ten_gren"]


def test_fields_of_several_kinds_in_rows_are_texts():
    text = drafted([Sampled(row.encode(), None) for row in ("a,1,7", "b,x,VRB", "a,y,8", "b,z,9")])
    assert "field_2: string " in text
    assert "field_3: string " in text
    assert "average_field_3: Average(try(float64(field_3)))" in text


def test_headers_are_suggested():
    headers = [("webhook-id", b"a7"), ("sluice-mark", b"window"), ("x", b"y"), ("raw", b"\xff")]
    record = Sampled(b'{"x": 1.5}', None, headers)
    text = drafted([record, record])
    assert '      # webhook_id: {from: \'header["webhook-id"]\', type: string} # a header, such as "a7"' in text
    assert text.count("header[") == 1
    suggested = text.replace("# webhook_id", "webhook_id")
    assert dict(pipeline(suggested).streams["trades"].headers) == {"webhook_id": "webhook-id"}


@pytest.mark.parametrize(
    ("name", "values", "hint"),
    [("total", ["BNI=", "TaA="], True), ("note", ["BNI=", "TaA="], False), ("total", ["BNI=", "12.50?"], False)],
)
def test_texts_that_may_be_the_bytes_of_decimals_have_a_hint(name, values, hint):
    assert ("`decimals: base64` of the stream" in of(*({name: value} for value in values))) is hint


MAP = '{type: "map<string, string>", pairs: '


@pytest.mark.parametrize(
    ("tags", "row"),
    [
        ([{"name": "a", "value": "x"}, {"name": "b", "value": "y"}], MAP + "{key: name, value: value}}"),
        (
            [{"key": "a", "value": {"stringValue": "x"}}, {"key": "b", "value": {"intValue": "7"}}],
            MAP + "{key: key, value: [value.stringValue, value.intValue]}}",
        ),
        ([{"name": "a", "value": 1.5}, {"name": "b", "value": 2.5}], '"list<tuple<name: string, value: float64>>"'),
        ([{"name": "a", "value": "x"}, {"name": "a", "value": "y"}], '"list<tuple<name: string, value: string>>"'),
        (
            [{"name": "a", "value": "x", "at": 1}, {"name": "b", "value": "y", "at": 2}],
            '"list<tuple<name: string, value: string, at: int64>>"',
        ),
    ],
    ids=["texts", "values by their types", "numbers", "a name twice", "more than a name and a value"],
)
def test_lists_of_names_and_values(tags, row):
    text = of(*({"x": n / 4, "tags": tags[: 1 + n % 2]} for n in range(8)), {"x": 1.5, "tags": tags[::-1]})
    assert row in text


def test_a_number_below_a_label_has_its_name_and_is_no_measurement_if_the_label_is_none():
    text = of(*(
        {"attributes": [
            {"key": "service.name", "value": {"stringValue": f"s{n % 2}"}},
            {"key": "process.pid", "value": {"intValue": n % 3}}, {"key": "load", "value": {"doubleValue": n / 4}},
        ]}
        for n in range(12)
    ))  # fmt: skip
    assert "      process_pid_intValue: {from: 'attributes[1].value.intValue', type: int64} " in text
    assert "average_load_doubleValue: Average(load_doubleValue)" in text


def test_lists_in_lists_have_a_map_for_each():
    cells = [{"cell": "x", "volts": 3.5}]
    racks = [{"rack": f"r{n}", "cells": [{"cell": f"c{n}", "volts": n / 4}, *cells]} for n in range(3)]
    file = pipeline(of(*({"site": f"s{n % 2}", "racks": racks[: n % 3]} for n in range(20))))
    assert [operator.name for operator in file.operators] == ["last_ten", "each_racks", "each_cells", "last_ten_cells"]
    assert [name for name, _ in file.streams["each_cells"].schema] == ["site", "rack", "cell", "volts"]


def test_records_that_are_lists_of_objects():
    text = of(*([{"s": f"s{n % 2}", "p": n / 4}] * (1 + n % 3) for n in range(20)))
    assert "items: {from: '$', type: \"list<tuple<s: string, p: float64>>\"}" in text
    assert "average_p: Average(p)" in text


@pytest.mark.parametrize(
    ("texts", "rows"),
    [
        (["21.5", "22.0"], ["    format: text", "      value: decimal(1)", "average_value: Average(value)"]),
        (["21", "22.25"], ["    format: text", "      value: float64", "average_value: Average(value)"]),
        (['"on"', '"off"'], ["      text: {from: '$', type: string}", "last_text: Last(text)"]),
        (["on", "off"], ["    format: text", "      line: string", "last_line: Last(line)"]),
        (["[INFO] on", "[WARN] off"], ["    format: text", "      line: string"]),
        (['"a,b",1', '"c",2'], ["    format: csv", "      field_1: string", "      field_2: int64"]),
        (['"a","1"', '"c","2"'], ["    format: csv", "      field_1: string", "      field_2: int64"]),
    ],
    ids=[
        "numbers of one place",
        "numbers",
        "texts in quotes",
        "lines",
        "lines in brackets",
        "rows that begin with a quote",
        "rows of quotes",
    ],
)
def test_records_that_are_single_values(texts, rows):
    text = drafted([Sampled(text.encode(), b"lamp") for text in texts])
    assert [row for row in rows if row not in text] == []


def test_the_records_that_become_dead_letters_are_counted_once():
    text = of({"x": "n/a", "y": "n/a"}, {"x": "n/a", "y": 1}, *({"x": 1, "y": 1} for _ in range(250)))
    assert "# 2 of the 252 records have a value of another type than the attribute: such records become dead" in text


def test_times_are_found_beside_an_odd_value():
    text = of({"ts": "n/a"}, *({"ts": 1_700_000_000_000} for _ in range(99)))
    assert "# event_time: {attribute: ts, lag: 10s}" in text


ROWS = [Sampled(b'{"id": 7, "name": "a", "city": "x"}', b"7"), Sampled(b'{"id": 8, "name": "b", "city": "x"}', b"8")]


def test_tombstones_are_counted_apart_and_the_topic_is_suggested_as_a_table():
    text = drafted([*ROWS, Sampled(None, b"7"), Sampled(b"[1]", b"9")])
    assert "drafted from 4 records" in text
    assert "# 1 of the 4 records are no JSON objects: such records become dead letters." in text
    assert "# 1 of the 4 records have no value (tombstones). In a table such a record deletes the row of" in text
    assert "# To read it as a table, follow the comments with `table` below and docs/join.md." in text
    assert "Kafka compacts" not in text


def test_a_compacted_topic_without_tombstones_is_suggested_as_a_table():
    text = draft("trades", sample("trades", ROWS, {}), "trades.yaml", KAFKA, {}, traits=Traits(compacted=True))
    assert "# Kafka compacts the topic: of each key it keeps the newest record (cleanup.policy)." in text
    assert "    # table: true " in text
    assert "tombstones" not in text


@pytest.mark.parametrize(
    ("rows", "key", "type_"),
    [
        (ROWS, "id", "int64"),
        ([Sampled(b'{"name": "a"}', b"7"), Sampled(b'{"name": "b"}', b"8")], "key", "string"),
        ([Sampled(b'{"name": "a"}', b"7"), Sampled(b'{"name": "b"}', b"7")] * 2, "key", "string"),
    ],
    ids=["an attribute is the key", "the key is in no attribute", "the key is an attribute of its own"],
)
def test_the_lines_about_a_table_are_right_when_the_signs_of_comments_are_removed(rows, key, type_):
    lines = drafted([*rows, Sampled(None, b"7")]).splitlines()
    operators, join = lines.index("operators:"), lines.index("dead_letters: dead") - 5
    streams = (line.replace("# ", "", 1) if re.match(" +# (key|table):", line) else line for line in lines[:operators])
    other = f"  OTHER: {{topic: other, schema: {{{key}: {type_}}}}}"
    text = "\n".join([*streams, other, "operators:", *(line.replace("# ", "", 1) for line in lines[join:])])
    loaded = load_text(text, "f.yaml", environment=None)
    assert loaded.streams["trades"].table
    assert loaded.streams["trades"].key.attributes == (key,)


@pytest.mark.parametrize(
    ("key", "line"),
    [
        (b"7", "    key: {attributes: [key]}"), (b'{"id": 7}', "    key: {attributes: [id], format: json}"),
        (b'{"nr": 9}', "    key: {attributes: [nr], format: json}"),
        (b'{"a": {"id": 7}}', "      id: {from: key.a.id, type: int64} "),
        (b"\xff", "    # key:"),
    ],
    ids=["a text", "an attribute of the value", "a member of the key", "a member within a member", "no text"],
)  # fmt: skip
def test_a_record_without_a_value_is_an_upsert_if_the_key_can_be_read(key, line):
    rows = [Sampled(b'{"id": 7, "city": "a"}', key), Sampled(b'{"id": 7, "city": "b"}', key), Sampled(None, key)]
    if key == b"7":
        rows = [Sampled(b'{"city": "a"}', key), Sampled(b'{"city": "b"}', key), Sampled(None, key)]
    text = drafted(rows)
    assert line in text
    assert ("    envelope: upsert " in text) is (not line.strip().startswith("#"))
    assert check_text(text, "f.yaml").problems == ()


def test_a_key_that_is_no_text_is_left_to_the_user():
    text = drafted([Sampled(b'{"name": "a"}', b"\xff"), Sampled(None, b"\xff")])
    assert "    # key: {attributes: [...]} " in text
    assert check_text(text, "f.yaml").problems == ()


SHOPS = [{"id": "1", "shop": "a"}, {"id": "2", "shop": "a"}, {"id": "3", "shop": "b"}, {"id": "4", "shop": "b"}]


@pytest.mark.parametrize(
    ("documents", "keys", "chosen"),
    [
        (SHOPS, None, "shop"),
        (SHOPS, ["1", "2", "3", "4"], "id"),
        (SHOPS, ["1", None, "3", None], "id"),
        ([{"n": 7, "shop": "a"}, {"n": 8, "shop": "b"}], ["7", "8"], "n"),
        (SHOPS, ["x", "x", "y", "y"], "key"),
        ([{"key": "1"}, {"key": "2"}] * 2, ["x", "x", "y", "y"], "record_key"),
        (SHOPS, ["w", "x", "y", "z"], "shop"),
        (SHOPS, ["x", "x", "y", None], "shop"),
        (SHOPS * 25, [*["x", "y"] * 49, None, None], "key"),
        (SHOPS, ["\0\0", "\0\0", "\0\1", "\0\1"], "shop"),
        ([{"id": "1"}, {"id": "2"}], None, None),
    ],
    ids=[
        "a text whose values repeat", "the attribute that is the key of the records", "some records have no key",
        "a number is the key", "the key of the records, which no attribute has", "an attribute has the name of the key",
        "no key repeats", "a record has no key", "two records in a hundred have no key", "the keys are no texts",
        "no text repeats",
    ],
)  # fmt: skip
def test_the_window_is_partitioned_by(documents, keys, chosen):
    (operator,) = pipeline(of(*documents, keys=keys)).operators
    assert [str(one.name) for one in operator.partition_by] == ([chosen] if chosen else [])


@pytest.mark.parametrize(
    ("documents", "chosen"),
    [
        ([{"side": side, "symbol": symbol} for symbol in "abc" for side in ("buy", "sell")], ["symbol"]),
        ([{"shop": shop, "amount": 1} for shop in "ab" * 49] + [{"amount": 1}] * 2, ["shop"]),
        ([{"shop": shop, "amount": 1} for shop in "ab" * 40] + [{"amount": 1}] * 20, []),
        ([{"ship": ship, "knots": 7} for ship in (1, 2, 1, 2)], ["ship"]),
        (
            [{"host": "ab"[n % 2], "metric_name": "xy"[n // 2 % 2], "sum": n / 2} for n in range(8)],
            ["host", "metric_name"],
        ),
        ([{"host": "ab"[n % 2], "type": "xy"[n // 2 % 2], "value": n / 2} for n in range(8)], ["host", "type"]),
        ([{"host": "ab"[n % 2], "type": "xy"[n % 2], "value": n / 2} for n in range(8)], ["host"]),
        ([{"host": "ab"[n % 2], "type": "xy"[n // 2 % 2], "load": n / 2} for n in range(8)], ["host"]),
    ],
    ids=[
        "a thing before a property",
        "98 of 100 records have it",
        "80 of 100 records have it",
        "a number of a thing",
        "a thing and what is measured",
        "a thing and what its value is",
        "a thing that has values of one sort",
        "a number that says itself what it is",
    ],
)
def test_without_keys_the_window_is_partitioned_by(documents, chosen):
    (operator,) = pipeline(of(*documents)).operators
    assert [str(one.name) for one in operator.partition_by] == chosen


def test_a_key_of_several_members_is_read_member_by_member():
    keys = [json.dumps({"region": region, "shop": shop}) for region in ("eu", "us") for shop in (1, 2)] * 2
    text = of(*({"amount": n} for n in range(8)), keys=keys)
    assert "      region: {from: key.region, type: string} " in text
    assert "    partition_by: [region, shop]" in text
    assert check_text(text, "f.yaml").problems == ()


def test_a_key_that_no_attribute_has_is_read_from_the_record():
    stream = pipeline(of(*SHOPS, keys=["x", "x", "y", "y"])).streams["trades"]
    assert stream.key is not None
    assert stream.key.attributes == ("key",)


OTHER = 'none of the 2 sampled records of trades is a JSON object; the first one begins with "\\\\xff". '
EMPTY = "none of the 2 sampled records of trades has a value"
REGISTRY = "the records of trades have a schema of a registry"
DELETES = "none of the 2 sampled changes of trades has a row behind it"
NONE = "no attribute of the records of trades can become an attribute of a stream "


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "the topic trades has no records; `sluice init` needs some to find their attributes"),
        ([b"\xff", b"\xfe"], f"{OTHER}docs/formats.md has the other formats"),
        ([b"\0\0\0\0\x11abc"], f"{REGISTRY} (id 17); name the registry: --registry url=http://HOST:PORT"),
        ([b'{"a": {}, "b-c": null}'], f"{NONE}(a: its objects are always empty; b_c: it is always null)"),
        ([None] * 2, f"{EMPTY}: all are tombstones; `--last N` reads more records"),
        ([b"{}"], f"{NONE}(they are empty objects)"),
        (
            [b'{"op": "d", "before": {"id": 1}, "after": null}'] * 2,
            f"{DELETES}, as all delete one; `--last N` reads more records",
        ),
    ],
    ids=[
        "no records",
        "no JSON objects",
        "Confluent's wire format",
        "no usable attribute",
        "tombstones",
        "empty objects",
        "change events that all delete a row",
    ],
)
def test_records_that_do_not_suffice(values, message):
    with pytest.raises(DraftError) as raised:
        drafted([Sampled(value, None) for value in values])
    assert str(raised.value) == message


names = st.sampled_from(["on", "yes", "null", "and", "tuples", "average_a", "é", "a", "trades", "1a", "#", "", "Count"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "x", "#", "a: b", "2013-01-01", "\n", "'", '"', "NaN"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=2), max_leaves=3,
)  # fmt: skip
topics = st.text(string.ascii_letters + string.digits + "._-", min_size=1, max_size=20).filter(
    lambda t: t not in (".", "..")
)
keys = st.sampled_from([None, b"a", b"b", b"\xff", b"", b"\n", b'"'])


@given(st.lists(st.tuples(st.dictionaries(names | st.text(max_size=3), values, max_size=4), keys), min_size=1), topics)
def test_check_accepts_what_is_drafted_from_any_records(documents, topic):
    records = [Sampled(json.dumps(one).encode(), key) for one, key in documents]
    try:
        text = drafted(records, topic)
    except DraftError:
        return
    assert check_text(text, "f.yaml").problems == ()


# ---- options inside of types -----------------------------------------------------------------------------------------


def lists_of(*values, name="x"):
    """Records with a list of two objects, whose member has these values in turn."""
    return [{"id": n, "items": [{"id": 1, name: values[n % len(values)]}] * (1 + n % 2)} for n in range(12)]


@pytest.mark.parametrize(
    ("records", "row"),
    [
        (lists_of("1.5", "2.25"), "items: [{id: int64, x: {type: float64, coerce: true}}] "),
        (lists_of(1_700_000_000_000, 1_700_000_001_000, name="ts"),
         "items: [{id: int64, ts: {type: timestamp, unit: ms}}] "),
        (lists_of("31.12.2023 10:00:00", name="at"),
         'items: [{id: int64, at: {type: timestamp, pattern: "%d.%m.%Y %H:%M:%S"}}] '),
        (lists_of("1.5", "2.25", name="on"), 'items: [{id: int64, "on": {type: float64, coerce: true}}] '),
        (lists_of("1.5", "2.25", None), "items: [{id: int64, x: {type: float64?, coerce: true}}] "),
        (lists_of({"y": "1.5"}, {"y": "2.25"}), "items: [{id: int64, x: {y: {type: float64, coerce: true}}}] "),
        (lists_of({"y": "1.5"}, {"y": "2.25"}, None), 'items: "list<tuple<id: int64, x: tuple<y: string>?>>" '),
        ([*lists_of("1.5", "2.25"), {"id": 12}], 'items: "list<tuple<id: int64, x: string>>?" '),
        (lists_of("1.50", "2.25"), 'items: "list<tuple<id: int64, x: decimal(2)>>" '),
    ],
    ids=[
        "numbers as texts", "times in milliseconds", "times of a pattern", "a name that YAML reads as true",
        "a member that may be null", "an object in the objects", "an object that may be null",
        "a list that may be null", "no options",
    ],
)  # fmt: skip
def test_values_in_a_list_have_options_of_their_own(records, row):
    text = of(*records)
    assert row in text
    written = list(replay(load_text(text, "f.yaml", environment=None), [
        {"at": at, "record": {"value": record}} for at, record in enumerate(records)
    ]))  # fmt: skip
    assert [line for line in written if "dead_letter" in line] == []


def test_a_text_with_json_has_a_hint():
    text = of({"id": 1, "body": '{"temp": 20.5}'}, {"id": 2, "body": '{"temp": 21.5}'})
    assert 'JSON as a text: `jsonText(json(body), "temp")` is a member of it' in text
    assert "JSON as a text" not in of({"id": 1, "body": '{"temp": 20.5}'}, {"id": 2, "body": "{x}"})
    assert "JSON as a text" not in of({"id": 1, "body": '{"$oid": "7"}'}, {"id": 2, "body": '{"$oid": "8"}'})


def test_a_schema_beside_a_single_value_is_no_attribute():
    record = {"schema": {"type": "double", "optional": False}, "payload": 1.5}
    assert [name for name, _ in pipeline(of(record, record)).streams["trades"].schema] == ["payload"]


@pytest.mark.parametrize("message", [{"ts_ms": 1}, {"ts_ms": 1, "source": {}, "ddl": "-"}, {"op": "m", "message": {}}])
def test_messages_of_debezium_about_no_row_are_left_out(message):
    """EN6: a heartbeat, a change of a schema, a message of an application."""
    event = {"op": "c", "before": None, "after": {"id": 1, "x": 1.5}, "source": {"ts_ms": 1_700_000_000_000}}
    text = of(event, event, message)
    assert "envelope: debezium" in text
    assert "      x: float64 " in text


def test_values_in_lists_and_maps_may_be_null_as_the_schema_of_connect_says():
    value = {"type": "int32", "optional": True}
    fields = [
        {"field": "tags", "type": "map", "keys": {"type": "string"}, "values": value},
        {"field": "some", "type": "array", "items": value},
        {"field": "rest", "type": "array", "items": {"type": "int32"}},
        {"field": "lines", "type": "array", "items": {"type": "struct", "fields": [
            {"field": "sku", "type": "string"}, {"field": "note", "type": "string", "optional": True},
            {"field": "sizes", "type": "array", "items": value, "optional": True},
        ]}},
    ]  # fmt: skip
    record = {
        "schema": {"type": "struct", "fields": fields},
        "payload": {
            "tags": {"a": 1}, "some": [1, 2], "rest": [1, 2],
            "lines": [{"sku": "a", "note": "b", "sizes": [1]}, {"sku": "c", "note": "d", "sizes": [2]}],
        },
    }  # fmt: skip
    text = of(record, record)
    assert "tags_a: {from: payload.tags.a, type: int64?} # such as 1; a map may lack it" in text
    assert "some: {from: payload.some, type: list<int64?>}" in text
    assert "rest: {from: payload.rest, type: list<int64>}" in text
    assert 'type: "list<tuple<sku: string, note: string?, sizes: list<int64?>?>>"' in text


@pytest.mark.parametrize(
    ("depth", "type_"), [(57, "int64"), (58, "map<string, int64>"), (59, "json"), (60, "json"), (150, "json")]
)
def test_objects_that_are_too_deep_for_a_path_are_json(depth, type_):
    """A path has at most 60 steps (PA1), two of which may be those of an envelope."""
    record = {"v": 1, "d": json.loads('{"d":' * depth + "1" + "}" * depth)}
    assert [str(type_) for _, type_ in pipeline(of(record, record)).streams["trades"].schema] == ["int64", type_]


@pytest.mark.parametrize(("depth", "type_"), [(60, f"{'list<' * 60}int64{'>' * 60}"), (61, "json"), (150, "json")])
def test_lists_that_are_too_deep_for_a_type_are_json(depth, type_):
    record = {"v": 1, "d": json.loads("[" * depth + "1" + "]" * depth)}
    assert [str(type_) for _, type_ in pipeline(of(record, record)).streams["trades"].schema] == ["int64", type_]


def test_a_constant_version_is_no_measurement():
    text = of(*({"jsonrpc": "2.0", "size_limit_text": "1.50", "x": n / 2} for n in range(12)))
    assert "jsonrpc: string " in text
    assert "average_x: Average(x)" in text


def test_lines_of_influxdb_are_texts():
    lines = [f"cpu,host={host},cpu=total idle={n}.5,user=1.0 {n}" for n, host in enumerate("abab")]
    assert "    format: text" in drafted([Sampled(line.encode(), None) for line in lines])
