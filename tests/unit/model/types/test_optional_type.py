"""Optional types: their texts and what they have of their inner type (NU1)."""

from __future__ import annotations

import pytest

from sluice.model.types import INT64, STRING, TIMESTAMP, list_of, optional_of, parse_type, similar_type


@pytest.mark.parametrize(
    ("text", "type_", "written"),
    [
        ("int64?", optional_of(INT64), "int64?"),
        ("optional<int64>", optional_of(INT64), "int64?"),
        (" long ? ", optional_of(INT64), "int64?"),
        ("list<string>?", optional_of(list_of(STRING)), "list<string>?"),
        ("optional<list<string>>", optional_of(list_of(STRING)), "list<string>?"),
        ("list<string?>", list_of(optional_of(STRING)), "list<string?>"),
        ("int64??", optional_of(INT64), "int64?"),
        ("optional<int64?>", optional_of(INT64), "int64?"),
    ],
)
def test_the_text_of_an_optional_type(text, type_, written):
    assert (parse_type(text), str(parse_type(text))) == (type_, written)


@pytest.mark.parametrize("text", ["?", "optional<>", "optional<int64", "number?", "?int64"])
def test_a_text_that_names_no_type(text):
    with pytest.raises(ValueError, match=r"boolean, int64, .*; T\? may be null"):
        parse_type(text)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("Nullable(Int64)", "int64?"),
        ("Optional[float]", "float64?"),
        ("VARCHAR NULL", "string?"),
        ("int | None", "int64?"),
        ("Int?", "int64?"),
        ("array<string>?", "list<string>?"),
        ("INT NOT NULL", None),
    ],
)
def test_the_type_that_a_text_of_another_system_means(text, meant):
    assert similar_type(text) == meant


def test_an_optional_type_has_the_values_of_its_type_and_null():
    type_ = optional_of(TIMESTAMP)
    assert (type_.optional, type_.present, type_.empty) == (True, TIMESTAMP, None)
    assert (type_.time, type_.sortable, type_.described) == (TIMESTAMP.time, True, "a timestamp?")
    assert (type_.literal(None), type_.literal(5), type_.from_definition(None)) == ("null", "5", None)


def test_another_type_is_its_own_present_type():
    assert (INT64.optional, INT64.present) == (False, INT64)
