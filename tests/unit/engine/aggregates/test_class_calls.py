"""`Custom` in the output of a map: a value for each tuple, in one call for a batch (FN16)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from sluice.config.load import load_text
from sluice.engine.operator_warm_up import without_user_code
from sluice.model.errors import PipelineError
from sluice.model.spec import Pipeline
from sluice.model.spreading import spread_by
from sluice.replayer.event_batches import Cutter
from sluice.replayer.event_file import numbered
from sluice.replayer.player import Player

FILE = """
pipeline: p
streams:
  in: {topic: in, schema: {k: string, n: int64, x: "float64?"}}
  out: {topic: out}
  counts: {topic: counts}
operators:
  - {name: score, map: in, %s}
"""
HERE = __name__


class Twice:
    """Twice the sum of its arguments. It remembers the sizes of its calls."""

    signature = "float64, float64 -> float64"
    version = 3
    sizes: ClassVar[list[int]] = []

    def values(self, left, right):
        self.sizes.append(len(left))
        return 2 * (left.to_numpy() + right.to_numpy())


class Fails:
    """Of 13 it has no value, of 7 a wrong one, of 0 null."""

    signature = "int64 -> int64?"

    def values(self, numbers):
        given = numbers.to_pylist()
        if 13 in given:
            raise ValueError("13")
        return np.array([None if n == 0 else "seven" if n == 7 else n for n in given], object)


class Nulls:
    signature = "float64? -> boolean"

    def values(self, numbers):
        return numbers.is_null()


def of(output: str, more: str = "") -> Pipeline:
    return load_text(FILE % f"output: {{out: {{k: k, y: '{output}'}}}}" + more, "p", environment=None)


def given(*rows: tuple[int, float | None]) -> list[dict[str, Any]]:
    return [{"at": at, "stream": "in", "tuple": {"k": "a", "n": n, "x": x}} for at, (n, x) in enumerate(rows)]


def run(pipeline: Pipeline, events: list[dict[str, Any]], size: int | None = None) -> list[Any]:
    """The values of y in order, and the reasons of dead letters."""
    player, cutter, placed = Player(pipeline, {"in": 1}), Cutter(pipeline.inputs), list(numbered(events))
    state, step = player.graph.initial(), size or len(placed)
    batches = [placed[start : start + step] for start in range(0, len(placed), step)]
    records = [record for batch in batches for record in player.feed(state, cutter.batch(batch))]
    return [
        r["tuple"]["y"] if "tuple" in r else r["dead_letter"]["reason"] for r in records if r.get("stream") != "counts"
    ]


def test_one_call_for_the_tuples_of_a_batch():
    pipeline, events = of(f'Custom("{HERE}:Twice", x, n) - 1'), given((1, 0.5), (2, 1.5), (3, 2.5), (4, 3.5))
    Twice.sizes.clear()
    assert run(pipeline, events) == [2.0, 6.0, 10.0, 14.0]
    assert Twice.sizes == [4]
    assert run(pipeline, events, 1) == run(pipeline, events, 3) == [2.0, 6.0, 10.0, 14.0]


def test_a_tuple_with_null_is_not_given_to_the_class():
    pipeline = of(f'Custom("{HERE}:Twice", x, n)')
    Twice.sizes.clear()
    assert run(pipeline, given((1, None), (2, 1.0), (3, None))) == [None, 6.0, None]
    assert Twice.sizes == [1]
    assert run(pipeline, given((1, None))) == [None]
    assert run(of(f'Custom("{HERE}:Nulls", x)'), given((1, None), (2, 1.0))) == [True, False]


def test_a_tuple_for_which_the_class_fails_is_a_dead_letter():
    values = run(of(f'Custom("{HERE}:Fails", n)'), given((1, 0.0), (13, 0.0), (0, 0.0), (7, 0.0), (5, 0.0)))
    dead = [value for value in values if isinstance(value, str)]
    assert (sorted(v for v in values if isinstance(v, int)), values.count(None), len(dead)) == ([1, 5], 1, 2)
    assert all("has no value" in reason for reason in dead)


def test_a_tuple_with_an_error_in_an_argument_is_not_given_to_the_class():
    pipeline = of(f'Custom("{HERE}:Twice", float64(k), n)')
    Twice.sizes.clear()
    (reason,) = run(pipeline, given((1, 0.0)))
    assert "has no value" in reason
    assert Twice.sizes == []


def test_beside_earlier_tuples():
    pipeline = of(f'previous(Custom("{HERE}:Twice", x, n)) ?: Custom("{HERE}:Twice", previous(x), n)')
    assert run(pipeline, given((1, 1.0), (2, 2.0), (3, 3.0)), 2) == [None, 4.0, 8.0]


def test_a_window_behind_it_whose_key_it_is_needs_one_bucket():
    window = "\n  - {name: n, aggregate: out, window: 'tumbling, count(2), partitioned', partition_by: [%s], "
    window += "output: {counts: {n: Count()}}}\n"
    assert spread_by(of(f'Custom("{HERE}:Nulls", x)', window % "k")) is not None
    assert spread_by(of(f'Custom("{HERE}:Nulls", x)', window % "y")) is None


def test_the_compilation_ahead_runs_no_code_of_users():
    (operator,) = of(f'Custom("{HERE}:Twice", x, n)').operators
    plain = without_user_code(operator)
    assert plain is not None
    assert [name for name, _ in plain.outputs[0].attributes] == ["k"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (f'Custom("{HERE}:Pipeline", x)', "expected a class with the method values"),
        (f'Custom("{HERE}:Twice", x)', "expected"),
        (f'Custom("{HERE}:Twice", k, n)', "expected"),
        (f'Custom("{HERE}:Twise", x, n)', "did you mean Twice?"),
        (f'Custom("{HERE}:Twice", x, n, where: n > 1)', "where: in aggregation functions alone"),
    ],
)
def test_wrong_calls(call: str, message: str):
    with pytest.raises(PipelineError) as raised:
        of(call)
    assert message in str(raised.value)
