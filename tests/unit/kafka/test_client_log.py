import logging

from sluice.kafka.client import RepeatedMessageFilter


def said(at, message):
    record = logging.makeLogRecord({"msg": message})
    record.created = at
    return record


def test_what_the_library_repeats_is_let_through_once_in_a_while():
    sparing = RepeatedMessageFilter(30.0)
    passed = [
        sparing.filter(said(at, message))
        for at, message in [
            (0, "FAIL: connect to 127.0.0.1:9092 failed (after 0ms)"),
            (1, "FAIL: connect to 127.0.0.1:9092 failed (after 2ms, 7 identical error(s) suppressed)"),
            (2, "FENCED"),
            (31, "FAIL: connect to 127.0.0.1:9092 failed (after 0ms)"),
        ]
    ]
    assert passed == [True, False, True, True]
