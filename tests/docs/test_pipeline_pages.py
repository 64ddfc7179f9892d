"""The keys of docs/pipeline-file.md and the functions of docs/expressions.md are those of the code, and their examples
are right.
"""

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest
import trustme
from pydantic_core import PydanticUndefined

from sluice.config.load import load_text
from sluice.config.syntax.file_models.operator_models import KINDS, SHAPES, AlignShape, EmptyPanesShape
from sluice.config.syntax.file_models.pipeline_models import FileShape
from sluice.config.syntax.file_models.stream_models import (
    EventTimeShape,
    KeyShape,
    MarkWhenShape,
    MemberShape,
    StreamShape,
)
from sluice.model.functions import AGGREGATES, EARLIER, FUNCTIONS, OPERATORS, RANKS
from sluice.model.windows.kinds import SIGNATURES

DOCS = Path(__file__).parents[2] / "docs"
FILE_PAGE = (DOCS / "pipeline-file.md").read_text(encoding="utf-8")
EXPRESSIONS_PAGE = (DOCS / "expressions.md").read_text(encoding="utf-8")


#: the section with the keys that several operators have with one meaning
SHARED_KEYS = "[keys of several operators](#keys-of-several-operators)"


def key_rows(model):
    """The name of each key, and its row: the name, the default, and the meaning."""
    return {
        field.alias or name: (f"* `{field.alias or name}`{default(field)}", f"{field.description}{words(field)}")
        for name, field in model.model_fields.items()
    }


def key_list(model):
    return "\n".join(": ".join(row) for row in key_rows(model).values())


def shared_rows():
    """The rows that several operators have, each with the words of these operators."""
    operators = defaultdict(list)
    for word, tag in KINDS.items():
        for row in key_rows(SHAPES[tag]).values():
            operators[row].append(word)
    return {row: words for row, words in operators.items() if len(words) > 1}


def operator_list(model):
    """The rows of an operator alone, and the names of the keys that it shares with others."""
    rows, shared = key_rows(model), shared_rows()
    own = [": ".join(row) for row in rows.values() if row not in shared]
    others = ", ".join(f"`{name}`" for name, row in rows.items() if row in shared)
    return "\n".join([*own, f"* {others}: {SHARED_KEYS}"])


def shared_list():
    return "\n".join(f"{key} of {', '.join(words)}: {meaning}" for (key, meaning), words in shared_rows().items())


def words(field):
    """The words that a key may have, if its description does not name them."""
    parts = [field.annotation, *get_args(field.annotation)]
    literal = next((part for part in parts if get_origin(part) is Literal), None)
    named = [f"`{word}`" for word in get_args(literal)]
    return f" One of {', '.join(named)}." if any(word not in field.description for word in named) else ""


def default(field):
    if field.default is PydanticUndefined:
        return " (needed)"
    if field.default in (None, [], {}):
        return ""
    return f" (`{field.default if isinstance(field.default, str) else json.dumps(field.default)}`)"


def function_list(functions):
    """An item for each function; functions that share a meaning have one together."""
    items = []
    for f in functions.values():
        takes = takes_and_gives(f.signatures)
        if f.meaning:
            items.append(([f.name], takes, f.meaning))
        else:
            assert takes == items[-1][1], f"{f.name} takes others than the function whose meaning it has"
            items[-1][0].append(f.name)
    return "\n".join(f"* {', '.join(f'`{name}`' for name in names)} ({takes}): {text}" for names, takes, text in items)


def takes_and_gives(signatures):
    """The signatures; of two that differ in a last parameter alone one, with the parameter in brackets."""
    shown, before = [], None
    for signature in signatures:
        if before and signature.result == before.result and signature.parameters[:-1] == before.parameters:
            first, last = ", ".join(before.parameters), signature.parameters[-1]
            shown[-1] = f"`{first}[, {last}] -> {signature.result}`" if first else f"`[{last}] -> {signature.result}`"
        else:
            shown.append(f"`{signature}`")
        before = signature
    return ", ".join(shown)


@pytest.mark.parametrize(
    "model", [FileShape, StreamShape, MemberShape, KeyShape, EventTimeShape, MarkWhenShape, AlignShape, EmptyPanesShape]
)
def test_keys_of_the_file(model):
    is_in_page(key_list(model))


@pytest.mark.parametrize("model", SHAPES.values())
def test_keys_of_an_operator(model):
    is_in_page(operator_list(model))


def test_keys_of_several_operators():
    is_in_page(shared_list())


def is_in_page(keys):
    assert [row for row in keys.splitlines() if row not in FILE_PAGE] == [], "keys that the page lacks"
    assert keys in FILE_PAGE, "keys in another order"


@pytest.mark.parametrize("table", [OPERATORS, FUNCTIONS, EARLIER, RANKS, AGGREGATES, SIGNATURES])
def test_functions(table):
    rows = function_list(table)
    assert [row for row in rows.splitlines() if row not in EXPRESSIONS_PAGE] == [], "functions that the page lacks"
    assert rows in EXPRESSIONS_PAGE, "functions in another order"


def files_of(page):
    return re.findall(r"```yaml\n(pipeline:.*?)```", page, re.DOTALL)


@pytest.mark.parametrize("text", files_of(FILE_PAGE))
def test_examples(text):
    assert load_text(text, "example", environment={"KAFKA_PASSWORD": "x"})


def test_the_file_of_the_page_about_security(tmp_path):
    certificate = trustme.CA().cert_pem.bytes().decode()
    (tmp_path / "ca.crt").write_text(certificate)
    (text,) = files_of((DOCS / "security.md").read_text(encoding="utf-8"))
    text = text.replace("/run/secrets/", f"{tmp_path}/")
    properties = load_text(text, "example", environment={"KAFKA_PASSWORD": "x"}).settings.kafka
    assert properties["ssl.ca.pem"].strip() == certificate.strip()
    assert properties["sasl.password"] == "x"
