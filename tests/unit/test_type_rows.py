"""Each table of types has a row for each type of the model."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from sluice.columns import column_forms
from sluice.columns.arrow_types import array_of
from sluice.columns.interner import Interner
from sluice.config.checks import constants
from sluice.engine.aggregates import function_table
from sluice.model import avro_schema
from sluice.model.functions import AGGREGATES, match
from sluice.model.protobuf import proto_fit
from sluice.model.types import SCALARS, TYPES, Type, list_of, parse_type
from sluice.wire.json import json_codec, json_types, json_write

TABLES = {
    "columns/column_forms.py": column_forms.FORMS,
    "wire/json/json_types.py": json_types.FORMS,
    "model/avro_schema.py": avro_schema.FORMS,
    "model/protobuf/proto_fit.py": proto_fit.FORMS,
    "config/checks/constants.py": constants.READERS.keys()
    | {type(row) for row in TYPES if type(row).from_file is not Type.from_file},
}
#: function -> the table with a row for each type of its argument
BY_TYPE = {"Sum": function_table.SUMS, "Average": function_table.MEANS}
#: a list of an optional type is read from its text alone
VALUES = [*TYPES, *(list_of(type_) for type_ in TYPES if not type_.optional)]
EACH_TYPE = pytest.mark.parametrize("type_", VALUES, ids=str)
#: an Arrow type and the words of kernels do not say whether a value may be absent
PRESENT = pytest.mark.parametrize("type_", [type_ for type_ in VALUES if not type_.optional], ids=str)


def rows_of(type_):
    """Two rows with the samples of a type; the samples of a list of scalars are one element each."""
    if type_.element is None or type_.optional:
        return list(type_.samples)
    return [[value] for value in rows_of(type_.element)]


@pytest.mark.parametrize("table", TABLES)
def test_a_table_has_a_row_for_each_type(table):
    assert {type(row).__name__ for row in TYPES} - {key.__name__ for key in TABLES[table]} == set()


@pytest.mark.parametrize("name", BY_TYPE)
def test_a_function_has_a_row_for_each_type_of_its_signatures(name):
    assert {type(row) for row in SCALARS if match(AGGREGATES[name], (row,))} == set(BY_TYPE[name])


def test_the_words_of_types_differ():
    words = [word for row in TYPES for word in (row.word, *row.aliases)]
    assert sorted(words) == sorted(set(words))


@EACH_TYPE
def test_a_type_is_read_from_its_text(type_):
    assert parse_type(str(type_)) == type_


@PRESENT
def test_the_arrow_type_gives_the_type(type_):
    assert column_forms.type_of(column_forms.form(type_).arrow) == type_


@PRESENT
def test_values_come_back_from_words(type_):
    form, strings = column_forms.form(type_), Interner()
    column = array_of(rows_of(type_), type_)
    assert form.from_words(form.to_words(column, strings), strings).equals(column)


@EACH_TYPE
def test_values_come_back_from_json(type_):
    column = array_of(rows_of(type_), type_)
    written = json_write.encode(pa.RecordBatch.from_arrays([column], ["a"]))
    decoded = json_codec.decode(written, (("a", type_),))
    assert (decoded.tuples.column(0).to_pylist(), decoded.bad) == (column.to_pylist(), [])


@EACH_TYPE
def test_the_json_of_records_is_that_of_events(type_):
    column = array_of(rows_of(type_), type_)
    values = column_forms.form(type_).to_json(column)
    written = json_write.encode(pa.RecordBatch.from_arrays([column], ["a"]))
    number = str if json_types.json_form(type_).digits else float  # events have texts of numbers with exact digits
    assert [json.loads(value, parse_float=number)["a"] for value in written.to_pylist()] == values
    assert column_forms.column(values, type_).equals(column)


@EACH_TYPE
def test_a_generated_schema_of_avro_takes_and_gives_the_type(type_):
    avro = avro_schema.parse(avro_schema.schema_of("r", (("a", type_),)))
    avro_schema.check_writing(avro, "a", type_)
    avro_schema.check_reading(avro, avro, "a", type_, has_default=False)


@EACH_TYPE
def test_the_value_of_an_attribute_without_a_value_is_one_of_the_type(type_):
    assert len(array_of([type_.empty], type_)) == 1
    assert type_.from_definition(json.loads(json.dumps(type_.empty)) if type_.element is None else ()) == type_.empty


# ---- the files that a type touches -----------------------------------------------------------------------------------

SERVICE = Path(json_types.__file__).parents[2]
#: the word of the type, also in a name such as `DecimalType` and in a plural; "a decimal number" is a notation
DECIMAL = re.compile(r"(?<![a-z])decimal(?! number)", re.IGNORECASE)
#: the names of Python's own module and class
OF_PYTHON = {"decimal", "Decimal"}


def names_and_texts(tree: ast.Module) -> Iterator[str]:
    """The names and the texts in the code of a module, without its docstrings."""
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Name(name) | ast.Attribute(attr=name) | ast.alias(name) | ast.FunctionDef(name):
                yield name
            case ast.ClassDef(name) | ast.arg(name) | ast.keyword(str(name)) | ast.ImportFrom(str(name)):
                yield name
            case ast.Constant(str(text)) if id(node) not in docs:
                yield f"{text} "


def files_that_name(word: re.Pattern[str]) -> list[str]:
    """The files of the service that name a type, without the modules of its own: their names have its word."""
    return [
        str(path.relative_to(SERVICE))
        for path in sorted(SERVICE.rglob("*.py"))
        if not word.search(path.stem)
        and any(word.search(name) for name in names_and_texts(ast.parse(path.read_text())) if name not in OF_PYTHON)
    ]


def test_a_type_touches_at_most_12_files():
    """Decimals have functions, sums, a logical type of Avro, a message of Protobuf, a spelling in JSON, and rules of
    drafts: a type has no more parts. Each of these files has a row for it, or a word of another system.
    """
    assert files_that_name(DECIMAL) == [
        "columns/column_forms.py",
        "config/syntax/function_names.py",
        "draft/value_forms.py",
        "engine/aggregates/function_table.py",
        "engine/stream/functions/function_kernels.py",
        "model/avro_schema.py",
        "model/functions.py",
        "model/protobuf/proto_fit.py",
        "model/protobuf/proto_schema.py",
        "model/types/type_table.py",
        "wire/formats/json_format.py",
        "wire/json/json_types.py",
    ]
