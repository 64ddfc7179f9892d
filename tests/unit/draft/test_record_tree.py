"""The places of JSON documents: which parts are places of their own, and which are values."""

import pytest

from sluice.draft.record_tree import places


def paths(*documents):
    return [place.path for place in places(documents)]


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ([{"a": 1, "b": "x"}], [("a",), ("b",)]),
        ([{"a": 1}, {"b": 2}], [("a",), ("b",)]),
        ([{"o": {"p": {"q": 1}}, "z": 0}], [("o", "p", "q"), ("z",)]),
        ([{"o": None}, {"o": {"p": 1}}], [("o", "p")]),
        ([{"o": None}], [("o",)]),
        ([{"o": {}}], [("o",)]),
        ([{"o": {"p": 1}}, {"o": 7}], [("o",)]),
        ([{"o": {"p": 1}}] * 99 + [{"o": 7}], [("o", "p")]),
    ],
    ids=[
        "members", "members of some documents", "nested members", "an object that may be null", "always null",
        "an empty object", "an object or a number", "a number among a hundred objects is a mistake",
    ],
)  # fmt: skip
def test_members_of_objects_are_places(documents, expected):
    assert paths(*documents) == expected


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        ([[1.5, 2.5]], [("l",)]),
        ([["a", "b"]], [("l",)]),
        ([["a"], ["b"]], [("l",)]),
        ([[]], [("l",)]),
        ([[{"x": 1}], [{"x": 2}]], [("l", 0, "x")]),
        ([[{"x": 1}], []], [("l", 0, "x")]),
        ([[{"x": 1}], [{"x": 2}, {"x": 3}]], [("l",)]),
        ([["buy", 7], ["sell", 8]], [("l", 0), ("l", 1)]),
        ([["buy", 7], ["sell"]], [("l",)]),
        ([[7], [8]], [("l", 0)]),
        ([[["0.1", "7"]]], [("l",)]),
    ],
    ids=[
        "numbers", "texts", "one text", "empty lists", "one object", "one object or none", "several objects",
        "items of several kinds", "items of several kinds, not always as many", "one number", "lists of lists",
    ],
)  # fmt: skip
def test_items_of_lists_are_places_if_each_has_its_position(lists, expected):
    assert paths(*({"l": items} for items in lists)) == expected


LABELS = [{"name": "job", "value": "web"}, {"name": "host", "value": "a"}]


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        ([LABELS] * 8, [("l", 0, "value"), ("l", 1, "value")]),
        ([LABELS] * 7, [("l",)]),
        ([*[LABELS] * 7, LABELS[:1]], [("l",)]),
        ([*[LABELS] * 7, LABELS[::-1]], [("l",)]),
        ([[{"name": "a"}, {"name": "b"}]] * 8, [("l",)]),
    ],
    ids=["labels", "too few lists", "a list without a label", "labels in another order", "names without values"],
)
def test_items_with_the_same_names_in_all_lists_are_places(lists, expected):
    assert paths(*({"l": items} for items in lists)) == expected


def test_numbers_beside_a_time_are_places_of_their_own():
    now = 1_700_000_000_000
    assert paths(*({"l": [n, now + n, n / 4]} for n in range(8))) == [("l", 0), ("l", 1), ("l", 2)]
    assert paths(*({"l": [n, 7 + n, n / 4]} for n in range(8))) == [("l",)]
    assert paths(*({"l": [n, now + n, n / 4][: 2 + n % 2]} for n in range(8))) == [("l",)]


def test_a_number_with_its_scale_is_a_value():
    assert paths({"n": {"scale": 2, "value": "BQ=="}}) == [("n",)]
    assert paths({"n": {"scale": "C", "value": 7}}) == [("n", "scale"), ("n", "value")]


def test_an_object_whose_names_are_data_is_a_value():
    prices = [{"prices": {f"S{n}": 1.5, f"S{n + 1}": 2.5}} for n in range(20)]
    assert paths(*prices) == [("prices",)]
    assert paths(*(one["prices"] for one in prices)) == [(f"S{n}",) for n in range(21)], "a record is no value"


def test_a_place_has_its_values_and_their_documents():
    (place,) = places([{"a": 1}, {"a": None}, {}, {"a": 4}])
    assert (place.values, place.rows, place.documents) == ([1, 4], [0, 3], 4)
