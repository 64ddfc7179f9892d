"""The paths of attributes in records (PA1): what they mean, and where a wrong one has its fault."""

from __future__ import annotations

import pytest

from sluice.config.syntax.member_path import PathError, member_path
from sluice.model.members import MAX_STEPS, text_of


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("amount", ("amount",)),
        ("payload.after.amount", ("payload", "after", "amount")),
        ('["order-id"]', ("order-id",)),
        ("['order-id']", ("order-id",)),
        ('["a.b"].c', ("a.b", "c")),
        ('a["b c"].d', ("a", "b c", "d")),
        ("items[0].price", ("items", 0, "price")),
        ("m[0][12]", ("m", 0, 12)),
        ('["say \\"hi\\" \\u00e9"]', ('say "hi" é',)),
        ('[""]', ("",)),
        ("größe", ("größe",)),
    ],
)
def test_path(text: str, steps: tuple[str | int, ...]):
    assert member_path(text) == steps
    assert member_path(text_of(steps)) == steps


NAME = "the name of a member, or ["
BRACKET = 'an index from 0 on, such as [0], or a name in quotes, such as ["order-id"]'
BETWEEN = "a point or [ between two steps of a path"


@pytest.mark.parametrize(
    ("text", "expected", "got", "column", "hint"),
    [
        ("", NAME, "", 1, None),
        ("a..b", NAME, ".b", 3, "a.b"),
        ("a.", NAME, "a.", 3, "a"),
        ("order-id", BETWEEN, "-id", 6, '["order-id"]'),
        ("order.line-no", BETWEEN, "-no", 11, 'order["line-no"]'),
        ("a.0.b", NAME, "0.b", 3, "a[0].b"),
        ("$.a.b", NAME, "$.a.b", 1, "a.b"),
        ("/a/b", NAME, "/a/b", 1, "a.b"),
        ("items[-1]", BRACKET, "[-1]", 6, None),
        ("items[*].price", BRACKET, "[*].price", 6, None),
        ("items[]", BRACKET, "[]", 6, None),
        ("a[b]", BRACKET, "[b]", 2, None),
        ('a["b', BRACKET, '["b', 2, None),
        ('["\\x"]', "a name with the escapes of JSON", '["\\x"]', 1, None),
        ("a[1000]", "an index of at most 999", "[1000]", 2, None),
    ],
)
def test_a_wrong_path_has_its_place_and_what_is_probably_meant(text, expected, got, column, hint):
    with pytest.raises(PathError) as raised:
        member_path(text)
    fault = raised.value.fault
    assert (fault.expected, fault.got, fault.column, fault.hint) == (expected, got, column, hint)


def test_a_path_has_a_bounded_depth():
    assert len(member_path(".".join("a" * MAX_STEPS))) == MAX_STEPS
    with pytest.raises(PathError):
        member_path(".".join("a" * (MAX_STEPS + 1)))
