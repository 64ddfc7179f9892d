"""Records in a file that `sluice init --records` reads."""

import pytest

from sluice.replayer.record_file import events_of


def values(content: bytes) -> list[object]:
    texts = [event["record"]["value"] for event in events_of(content)]
    return [text.decode() if isinstance(text, bytes) else text for text in texts]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'{"a":1}\n{"a":2}\n', ['{"a":1}', '{"a":2}']),
        (b'\xef\xbb\xbf{"a":1}\r\n\r\n{"a":2}\r\n', ['{"a":1}', '{"a":2}']),
        (b'[{"a":1.50},{"a":2}]', ['{"a":1.50}', '{"a":2}']),
        (b'[\n  {"a": 1.50},\n  {\n"a": 2}\n]\n', ['{"a": 1.50}', '{\n"a": 2}']),
        (b'{\n"a": 1\n}\n{\n"a": 2\n}\n', ['{\n"a": 1\n}', '{\n"a": 2\n}']),
        (b'[{"a":1}]\n[{"a":2},{"a":3}]\n', ['[{"a":1}]', '[{"a":2},{"a":3}]']),
        (b'[{"a":1}]', ['[{"a":1}]']),
        (b'{"a":1}\nnot json\n', ['{"a":1}', "not json"]),
        (b"21.5\n22.0\n", ["21.5", "22.0"]),
        (b"a,b\n1,2\n", ["a,b", "1,2"]),
        (b"a\t1\nb\t2\n", ["a\t1", "b\t2"]),
        (b"", []),
        (b"\n \n", []),
    ],
    ids=[
        "lines", "a byte order mark, lines of Windows, an empty line", "a list in a line", "a list over several lines",
        "objects over several lines", "lines that are lists", "a list with one object", "a line that is no JSON",
        "numbers", "rows", "rows with tabs", "nothing", "empty lines",
    ],
)  # fmt: skip
def test_the_values_in_a_file(content, expected):
    assert values(content) == expected


def test_lines_of_a_key_and_a_value_with_a_tab_between_them():
    events = list(events_of(b'k1\t{"a":1}\nk2\tnull\n\t{"a":2}\n'))
    assert [(event["record"]["key"], event["record"]["value"]) for event in events] == [
        (b"k1", b'{"a":1}'), (b"k2", None), (b"", b'{"a":2}'),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (b'A\t{"v":1}\nB\t\nA\t{"v":2}\n', [b'{"v":1}', None, b'{"v":2}']),
        (b'A\t{"v":1}\nB\tNULL\n', [b'{"v":1}', None]),
        (b'A\t{"v":1}\nB\t{"v":\nA\t{"v":2}\n', [b'{"v":1}', b'{"v":', b'{"v":2}']),
        (b'{"id":1}\t{"v":1}\n{"id":2}\tnull\n', [b'{"v":1}', None]),
        (b"A\tnull\nB\tnull\n", [None, None]),
    ],
    ids=["kcat's tombstone", "that of kcat -Z", "a value with a mistake", "keys that are JSON", "tombstones alone"],
)
def test_what_stands_behind_the_tab(lines, expected):
    assert [event["record"]["value"] for event in events_of(lines)] == expected


def test_events_are_what_they_are():
    event = {"at": 3, "record": {"value": {"a": 1}, "key": "k"}}
    assert list(events_of(b'{"at":3,"record":{"value":{"a":1},"key":"k"}}\n{"a":2}')) == [
        event,
        {"at": 1, "record": {"value": b'{"a":2}'}},
    ]
