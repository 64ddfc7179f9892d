"""The texts of types with an inside (ST1)."""

import pytest

from sluice.config.syntax.file_models.value_models import type_text
from sluice.model.types import (
    BYTES,
    FLOAT64,
    INT64,
    STRING,
    StructType,
    list_of,
    map_of,
    optional_of,
    parse_type,
    similar_type,
    struct_of,
)

TEXTS = {
    "tuple<id: int64, name: string?>": struct_of(id=INT64, name=optional_of(STRING)),
    "tuple<int64 id, rstring name>": struct_of(id=INT64, name=STRING),
    "tuple<list<int64> xs, map<string, tuple<float64 x>> m>": struct_of(
        xs=list_of(INT64), m=map_of(STRING, struct_of(x=FLOAT64))
    ),
    "int64" + "?" * 3000: optional_of(INT64),
    f"tuple<{', '.join(f'm{n}: list<int64?>' for n in range(100))}>": StructType(
        tuple((f"m{n}", list_of(optional_of(INT64))) for n in range(100))
    ),
    "map<string, list<bytes?>>?": optional_of(map_of(STRING, list_of(optional_of(BYTES)))),
    "tuple<price: decimal(38, 9), n: int64>": StructType((("price", parse_type("decimal(38, 9)")), ("n", INT64))),
}


@pytest.mark.parametrize("text", TEXTS)
def test_the_texts_of_a_type(text):
    assert parse_type(text) == TEXTS[text]
    assert parse_type(str(TEXTS[text])) == TEXTS[text]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tuple<>", "tuple<name: type, ...> with members of different names"),
        ("tuple<id: int64, id: string>", "tuple<name: type, ...> with members of different names"),
        ("map<float64, int64>", "a key of a map that is compared exactly, such as string or int64, not float64"),
        ("map<string?, int64>", "a key of a map that is compared exactly, such as string or int64, not string?"),
        ("list<" * 100 + "int64" + ">" * 100, "a type that is at most 60 types deep"),
    ],
)
def test_a_wrong_text(text, expected):
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the text is compared
        parse_type(text)
    assert str(raised.value) == expected


def test_a_mapping_of_the_file_is_a_struct():
    given = {"id": "int64", "lines": [{"sku": "string", "tags": "map<string, int64>"}]}
    assert type_text(given) == "tuple<id: int64, lines: list<tuple<sku: string, tags: map<string, int64>>>>"


@pytest.mark.parametrize(
    ("text", "meant"),
    [("Map(String, Int)", "map<string, int64>"), ("dict[str, list[int]]", "map<string, list<int64>>"),
     ("jsonb", "json"), ("bytea", "bytes"), ("struct", "tuple<name: type, ...>")],
)  # fmt: skip
def test_types_of_other_systems(text, meant):
    assert similar_type(text) == meant
