"""Pipeline files that are drafted from records of a topic."""

import json
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.config.load import check_text, load_text
from sluice.draft.draft_pipeline import draft
from sluice.draft.sampled_records import DraftError, Sampled, sample
from sluice.model.types import BOOLEAN, FLOAT64, INT64, STRING, TIMESTAMP, list_of

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
        {"symbol": "IBM", "price": 1.5, "size": 3, "time": "2013-01-01T10:00:00Z", "note": "x", "user-id": 1},
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
      note: string                          # such as "x"; missing or null in 2 of 4 records
      # left out: "user-id": a name has letters, digits and underscores
      # left out: "at": it is an object; attributes are values and lists of values
    defaults: {note: ""}                    # without a default such a record is a dead letter
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
    [["2013-01-01", "2013-01-02"], [1_700_000_000_000, 1_700_000_001_000], [1_700_000_000_000_000] * 2],
    ids=["ISO 8601", "milliseconds", "microseconds"],
)
def test_the_suggestions_are_right_when_the_signs_of_comments_are_removed(times):
    text = of(*({"user": user, "time": time} for user in ("a", "b") for time in times))
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
        ([True, False], BOOLEAN), ([1, 2], INT64), ([1, 2.5], FLOAT64), ([1, 2**70], FLOAT64), (["a", "b"], STRING),
        (["2013-01-01", "2013-01-01T10:00Z"], TIMESTAMP), (["2013-01-01", "later"], STRING), (["NaN", "b"], STRING),
        ([[1], []], list_of(INT64)), ([[1, 0.5]], list_of(FLOAT64)), ([["a"]], list_of(STRING)),
    ],
)  # fmt: skip
def test_types(values, type_):
    assert dict(pipeline(of(*({"x": value} for value in values))).streams["trades"].schema)["x"] == type_


@pytest.mark.parametrize(
    ("values", "unit"),
    [
        ([1_700_000_000_000, 1_600_000_000_000], "milliseconds"),
        ([1_700_000_000_000_000], "microseconds"),
        ([1_700_000_000_000_000_000], "nanoseconds"),
        ([1_700_000_000], "seconds"),
        ([1_700_000_000.5], "seconds"),
        ([1_700_000_000_000, 7], None),
    ],
    ids=["milliseconds", "microseconds", "nanoseconds", "seconds", "seconds with a fraction", "not all are times"],
)
def test_a_number_that_may_be_a_time_is_suggested_as_event_time(values, unit):
    text = of(*({"ts": value, "x": 1.0} for value in values))
    resolution = "" if unit in (None, "seconds") else f", resolution: {unit}"
    suggested = f"    # event_time: {{attribute: ts, lag: 10s{resolution}}}"
    assert (suggested in text) is (unit is not None)
    assert (f"; {unit} since 1970?" in text) is (unit is not None)
    assert "average_x" in text, "no average of times is computed"


#: values, and the types that the comment has
CONFLICTS: list[tuple[list[object], str]] = [
    ([1, 2, 3, "n/a", 5, 6, 7, 8], 'int64 in 7, string in 1 (such as "n/a") of 8 records; with x: int64 the others'),
    ([1, 2.5, "n/a"], 'float64 in 2, string in 1 (such as "n/a") of 3 records; with x: float64 the others'),
    (["a", 1, "2013-01-01"], "string in 2, int64 in 1 (such as 1) of 3 records; with x: string the others"),
    ([[1], True, [2], None], "list<int64> in 2, boolean in 1 (such as true) of 3 records; with x: list<int64> the"),
    ([{"a": 1}, 1, 2], 'int64 in 2, object in 1 (such as {"a": 1}) of 3 records; with x: int64 the others are dead'),
    ([[{"a": 1}], 1, {}], "a list of objects in 1, int64 in 1 (such as 1), object in 1 (such as {}) of 3 records"),
    ([[1, "a"], [2, "b"], 1], "a list of several types in 2, int64 in 1 (such as 1) of 3 records"),
    (
        [1, "a", True, ["b"], [True]],
        'int64 in 1, string in 1 (such as "a"), boolean in 1 (such as true), list<string> in 1 (such as ["b"]) and 1 ',
    ),
]


@pytest.mark.parametrize(("values", "seen"), CONFLICTS)
def test_values_without_a_common_type_are_a_comment_with_the_types_that_were_seen(values, seen):
    text = of(*({"x": value, "y": 1} for value in values))
    (line,) = [line for line in text.splitlines() if '"x"' in line]
    assert line.startswith(f'      # left out: "x": its values have no common type: {seen}')
    assert [name for name, _ in pipeline(text).streams["trades"].schema] == ["y"]


def test_the_type_in_the_comment_can_be_chosen():
    text = of({"x": 1, "y": 1}, {"x": "n/a", "y": 2}, {"x": 3, "y": 3})
    assert "with x: int64 the others are dead letters" in text
    assert check_text(text.replace("      y: int64", "      x: int64\n      y: int64"), "f").problems == ()


@pytest.mark.parametrize("topic", ["0E0", "1_0", ".5", "-1", "1e3", "0x1F", "a.1"])
def test_a_topic_that_looks_like_a_number_is_a_text(topic):
    text = drafted([Sampled(b'{"x": 1}', None)], topic)
    (stream,) = load_text(text, "f.yaml", environment=None).inputs
    assert stream.topic == topic


@pytest.mark.parametrize(
    ("usual", "odd", "type_", "comment"),
    [
        (list(range(999)), ["n/a"], INT64, 'such as 0; 1 of 1000 records is a dead letter, such as "n/a"'),
        (list(range(198)), [True, {}], INT64, "such as 0; 2 of 200 records are dead letters, such as true"),
        ([1, 2.5] * 99, ["n/a", "-"], FLOAT64, 'such as 1; 2 of 200 records are dead letters, such as "n/a"'),
        ([1] * 197 + [0.5], ["n/a"], FLOAT64, 'such as 1; 1 of 199 records is a dead letter, such as "n/a"'),
        (["a"] * 99, [7], STRING, 'such as "a"; 1 of 100 records is a dead letter, such as 7'),
        (["2013-01-01"] * 99, ["later"], STRING, 'such as "later"'),
    ],
    ids=["int64", "two other types", "float64", "few with a point", "string", "all are strings"],
)
def test_the_type_of_nearly_all_values_is_taken(usual, odd, type_, comment):
    text = of(*({"x": value} for value in [*odd, *usual]))
    (line,) = [line for line in text.splitlines() if line.startswith("      x: ")]
    assert line.split(" # ")[1] == comment
    assert dict(pipeline(text).streams["trades"].schema)["x"] == type_


def test_less_than_99_of_100_are_not_nearly_all_values():
    text = of({"x": "n/a", "y": 1}, {"x": True, "y": 1}, *({"x": 1, "y": 1} for _ in range(190)))
    assert '# left out: "x"' in text


def test_the_records_that_become_dead_letters_are_counted_once():
    text = of({"x": "n/a", "y": "n/a"}, {"x": "n/a", "y": 1}, *({"x": 1, "y": 1} for _ in range(250)))
    assert "# 2 of the 252 records have a value of another type than the attribute: such records become dead" in text


def test_times_are_found_beside_an_odd_value():
    text = of({"ts": "n/a"}, *({"ts": 1_700_000_000_000} for _ in range(99)))
    assert "# event_time: {attribute: ts, lag: 10s, resolution: milliseconds}" in text


ROWS = [Sampled(b'{"id": 7, "name": "a", "city": "x"}', b"7"), Sampled(b'{"id": 8, "name": "b", "city": "x"}', b"8")]


def test_tombstones_are_counted_apart_and_the_topic_is_suggested_as_a_table():
    text = drafted([*ROWS, Sampled(None, b"7"), Sampled(b"[1]", b"9")])
    assert "drafted from 4 records" in text
    assert "# 1 of the 4 records are no JSON objects: such records become dead letters." in text
    assert "# 1 of the 4 records have no value (tombstones). In a table such a record deletes the row of" in text
    assert "# To read it as a table, follow the comments with `table` below and docs/join.md." in text
    assert "Kafka compacts" not in text


def test_a_compacted_topic_without_tombstones_is_suggested_as_a_table():
    text = draft("trades", sample("trades", ROWS, {}), "trades.yaml", KAFKA, {}, compacted=True)
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
        (SHOPS, ["\0\0", "\0\0", "\0\1", "\0\1"], "shop"),
        ([{"id": "1"}, {"id": "2"}], None, None),
    ],
    ids=[
        "a text whose values repeat", "the attribute that is the key of the records", "some records have no key",
        "a number is the key", "the key of the records, which no attribute has", "an attribute has the name of the key",
        "no key repeats", "a record has no key", "the keys are no texts", "no text repeats",
    ],
)  # fmt: skip
def test_the_window_is_partitioned_by(documents, keys, chosen):
    (operator,) = pipeline(of(*documents, keys=keys)).operators
    assert [str(one.name) for one in operator.partition_by] == ([chosen] if chosen else [])


def test_a_key_that_no_attribute_has_is_read_from_the_record():
    stream = pipeline(of(*SHOPS, keys=["x", "x", "y", "y"])).streams["trades"]
    assert stream.key is not None
    assert stream.key.attributes == ("key",)


OTHER = 'none of the 2 sampled records of trades is a JSON object; the first one begins with "a,1". '
EMPTY = "none of the 2 sampled records of trades has a value"
REGISTRY = "the records of trades have a schema of a registry"
OBJECT = "it is an object; attributes are values and lists of values"
NONE = "no attribute of the records of trades can become an attribute of a stream "


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "the topic trades has no records; `sluice init` needs some to find their attributes"),
        ([b"a,1", b"b,2"], f"{OTHER}docs/formats.md has the other formats"),
        ([b"\0\0\0\0\x11abc"], f"{REGISTRY} (id 17); name the registry: --registry url=http://HOST:PORT"),
        ([b'{"a": {}, "b-c": 1}'], f"{NONE}(a: {OBJECT}; b-c: a name has letters, digits and underscores)"),
        ([None] * 2, f"{EMPTY}: all are tombstones; `--last N` reads more records"),
        ([b"{}"], f"{NONE}(they are empty objects)"),
    ],
    ids=["no records", "tombstones", "no JSON", "Confluent's wire format", "no usable attribute", "empty objects"],
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
