"""Random cases with null: those of the other strategies, in which some attributes are optional and some values null."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.spec.strategies import Case

SCHEMAS = ("schema", "schema_left", "schema_right")
#: of how many values of an optional attribute one is null
ONE_OF = st.sampled_from([1, 2, 2, 4])


@st.composite
def with_nulls(draw: st.DrawFn, cases: st.SearchStrategy[Case]) -> Case:
    case = draw(cases)
    operator = dict(case["operator"])
    names = sorted({name for key in SCHEMAS for name in operator.get(key, {})})
    optional = draw(st.sets(st.sampled_from(names), min_size=1)) if names else set()
    for key in set(SCHEMAS) & operator.keys():
        operator[key] = {name: kind + "?" * (name in optional) for name, kind in operator[key].items()}
    operator |= draw(_of_joins(operator)) if operator["kind"] == "join" else {}
    if operator["kind"] == "sort":
        operator["order_by"] = [(name, draw(_orders(way))) for name, way in operator["order_by"]]
    one_of = draw(ONE_OF)
    chances = draw(st.randoms(use_true_random=False))
    return {
        "operator": operator,
        "input": [event | _thinned(event, optional, one_of, chances) for event in case["input"]],
    }


def _orders(way: str) -> st.SearchStrategy[Any]:
    return st.sampled_from([way, {"direction": way, "nulls": "first"}, {"direction": way, "nulls": "last"}])


@st.composite
def _of_joins(draw: st.DrawFn, operator: Case) -> dict[str, Any]:
    """A missing side that is null in all attributes (NU26)."""
    outer = {"default_right": ("leftOuter", "outer"), "default_left": ("rightOuter", "outer")}
    apart = operator.get("unmatched_left") or operator.get("unmatched_right")
    sides = [side for side, words in outer.items() if operator["algorithm"] in words and not apart]
    return {side: None for side in sides if draw(st.booleans())}


def _thinned(event: dict[str, Any], optional: set[str], one_of: int, chances: Any) -> dict[str, Any]:
    if "tuple" not in event:
        return {}
    return {
        "tuple": {
            name: None if name in optional and chances.randrange(one_of) == 0 else value
            for name, value in event["tuple"].items()
        }
    }
