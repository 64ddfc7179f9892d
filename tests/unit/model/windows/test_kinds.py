"""The registry of window kinds: each has all that the parts of the service ask of it."""

from __future__ import annotations

from dataclasses import is_dataclass

import pytest

from sluice.config.load import load_text
from sluice.engine.aggregates.function_table import FUNCTIONS
from sluice.engine.operators.window_operators import AGGREGATES, SORTS, row_of
from sluice.model.spec import Aggregate
from sluice.model.windows.kinds import KINDS, SIZED, WINDOW_FUNCTIONS
from sluice.model.windows.window_kind import WindowKind

FILE = """
pipeline: p
streams:
  input: {{topic: input, schema: {{k: string, ts: timestamp}}, {stream}}}
  output: {{topic: output}}
operators:
  - {{name: o, aggregate: input, window: "{window}", partition_by: [{by}], output: {{output: {{n: Count()}}}}}}
"""


#: what the stream of a table has, and that of another window
TABLE, STREAM = "table: true, key: {attributes: [k]}", "event_time: ts"


def window_of(text: str) -> WindowKind:
    by, stream = "k" if "partitioned" in text else "", TABLE if text.startswith("table") else STREAM
    (operator,) = load_text(FILE.format(window=text, by=by, stream=stream), "file.yaml", environment=None).operators
    assert isinstance(operator, Aggregate)
    return operator.window


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_the_text_of_a_window_is_a_clause_that_says_the_same(kind: type[WindowKind]):
    window = window_of(kind.example)
    assert isinstance(window, kind)
    assert window_of(window.clause()) == window


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_each_kind_is_a_value_with_an_operator_and_with_words(kind: type[WindowKind]):
    assert is_dataclass(kind)
    assert row_of(AGGREGATES, kind) is not WindowKind
    assert (row_of(SORTS, kind) is not WindowKind) == ("sort" in kind.operators)
    assert all(window_of(kind.example).fires(None, incomplete=False))


@pytest.mark.parametrize("kind", SIZED.values(), ids=SIZED)
def test_a_kind_with_sizes_needs_one_of_them(kind: type[WindowKind]):
    assert any(part.needed for part in kind.parts.values())
    assert kind.no_partition_eviction
    assert window_of(kind.example).sizes
    assert not window_of(kind.example).policies


def test_functions_of_windows_are_computed():
    assert FUNCTIONS.keys() >= WINDOW_FUNCTIONS.keys()
