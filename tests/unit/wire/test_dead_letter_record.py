from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.kafka.records import records
from sluice.wire.dead_letter_record import DeadLetter, Reason, reason, word_of

WHY = reason(Reason.NOT_JSON, "unexpected character: line 1 column 1")


def letter(key=b"k", value=b"v", headers=()):
    return DeadLetter("in", "trades", 3, 42, 1357041600000, WHY, key, value, list(headers))


def test_a_record_is_kept_with_its_place_and_the_reason():
    assert letter(headers=[("trace", b"1"), ("trace", None)]).record(10_000) == (
        b"k",
        b"v",
        [
            ("trace", b"1"),
            ("trace", None),
            ("sluice-reason", b"not JSON: unexpected character: line 1 column 1"),
            ("sluice-stream", b"in"),
            ("sluice-topic", b"trades"),
            ("sluice-partition", b"3"),
            ("sluice-offset", b"42"),
            ("sluice-timestamp", b"1357041600000"),
        ],
    )


def test_nothing_stays_nothing():
    key, value, _ = letter(key=None, value=None).record(10_000)
    assert (key, value) == (None, None)


def test_a_dead_letter_that_dies_again_tells_of_its_last_death():
    _, _, headers = letter(headers=[("sluice-reason", b"older"), ("sluice-mark", b"what")]).record(10_000)
    assert [value for name, value in headers if name == "sluice-reason"] == [WHY.encode()]
    assert ("sluice-mark", b"what") in headers


def test_a_dead_letter_whose_value_is_the_tuple_of_an_operator_says_so():
    _, _, headers = replace(letter(), original=False).record(10_000)
    assert headers[-1] == ("sluice-value", b"tuple")
    _, _, headers = letter(headers=[("sluice-value", b"tuple")]).record(10_000)
    assert "sluice-value" not in dict(headers), "it is that of an earlier dead letter"


def test_a_large_value_is_cut_and_says_how_large_it_was():
    key, value, headers = letter(value=b"x" * 10_000).record(2_000)
    assert key == b"k"
    assert 1_000 < len(value) < 2_000
    assert headers[-1] == ("sluice-truncated", b"10000")


def test_a_large_key_or_large_headers_give_way_to_the_reason():
    key, value, headers = letter(key=b"k" * 10_000, headers=[("h", b"x" * 10_000)]).record(2_000)
    assert 1_000 < len(key) < 2_000
    assert value == b""
    assert headers[0][0] == "sluice-reason"


def test_in_a_topic_of_tiny_records_the_reason_is_cut_and_its_word_stays():
    key, value, headers = letter(key=b"k" * 100, value=b"v" * 100).record(350)
    assert (key, value) == (b"", b"")
    assert headers[0] == ("sluice-reason", WHY[: len(headers[0][1])].encode())
    assert word_of(headers[0][1].decode()) == "not JSON"
    assert len(headers[0][1]) < len(WHY)
    assert dict(headers)["sluice-offset"] == b"42"


BYTES = st.one_of(st.none(), st.binary(max_size=50), st.integers(0, 5000).map(lambda size: b"x" * size))


@given(BYTES, BYTES, st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=4), st.integers(400, 8000))
def test_a_dead_letter_is_never_larger_than_the_limit_as_the_writer_counts(key, value, headers, limit):
    key, value, headers = letter(key, value, headers).record(limit)
    one = records(
        "dead", pa.array([value], pa.binary()), pa.array([key], pa.binary()), np.zeros(1), np.zeros(1), [headers]
    )
    assert one.sizes()[0] <= limit


@pytest.mark.parametrize("word", list(Reason))
def test_the_word_of_a_reason_is_found_again(word):
    assert word_of(reason(word, "a: b: c")) == word
