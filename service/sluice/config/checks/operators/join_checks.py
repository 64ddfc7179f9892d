"""Checks a join and builds it (reference sections 2 and 8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sluice.config.checks.constants import read_value
from sluice.config.checks.expression_checks import ExpressionChecks
from sluice.config.checks.operators.event_join_checks import event_window, given_windows
from sluice.config.checks.table_checks import NO_WINDOW, ROWS, check_join, is_table
from sluice.config.checks.window_checks import window
from sluice.config.syntax.file_models.operator_models import JoinShape
from sluice.config.syntax.typed_expressions import Scope
from sluice.config.syntax.window_clause import ParsedClause
from sluice.model.errors import nearest
from sluice.model.expressions import Attribute, Expression
from sluice.model.spec import Count, Join, Output, Side, Sliding
from sluice.model.types import Schema, Value, optional_of

#: side -> the algorithms that output a tuple of this side when it leaves its window without ever having had a partner
OUTER = {"left": ("leftOuter", "outer"), "right": ("rightOuter", "outer")}
OTHER = {"left": "right", "right": "left"}
#: replaces a window that is wrong in the file
UNKNOWN = Sliding(Count(0))


def join(checks: ExpressionChecks, index: int, shape: JoinShape) -> Join:
    table = is_table(checks, shape)
    if not table:
        given_windows(checks, index, shape)
    sides = {name: side(checks, index, shape, name) for name in OUTER}
    check_equality(checks, index, sides)
    if table:
        check_join(checks, index, shape, sides["right"])
        sides = {
            "left": replace(sides["left"], window=NO_WINDOW, partition_by=()),
            "right": replace(sides["right"], window=ROWS, partition_by=sides["right"].equality),
        }
    if shape.algorithm == "outer" and bool(shape.unmatched_left) != bool(shape.unmatched_right):
        missing = "unmatched_left" if shape.unmatched_right else "unmatched_right"
        checks.report.problem(checks.path(index, missing), "both of unmatched_left and unmatched_right, or none", None)
    scope = both(checks, shape)
    match = checks.condition(checks.path(index, "match"), shape.match, scope)
    # J4: if both sides have an attribute of the same name, the output has that of the left side
    unchanged = attributes(checks, shape, "right") | attributes(checks, shape, "left")
    order = [*checks.unchanged(shape.join.left), *checks.unchanged(shape.join.right)]
    matched = checks.outputs(index, shape, scope, {name: unchanged[name] for name in order})
    whole = None if table else event_window(checks, index, shape)
    return Join(shape.name, sides["left"], sides["right"], matched, match, whole, table)


def attributes(checks: ExpressionChecks, shape: JoinShape, name: str) -> dict[str, Expression]:
    """The attributes of one side as expressions over pairs."""
    values = checks.unchanged(getattr(shape.join, name), name)
    return (
        {attribute: Attribute(attribute, optional_of(e.type), name) for attribute, e in values.items()}
        if is_null(shape, name)
        else values
    )


def both(checks: ExpressionChecks, shape: JoinShape) -> Scope | None:
    """The scope of expressions over pairs; None if the attributes of a side are unknown."""
    schemas = [checks.streams.schemas.get(stream) for stream in (shape.join.left, shape.join.right)]
    sides = {
        name: {attribute: optional_of(kind) if is_null(shape, name) else kind for attribute, kind in schema}
        for name, schema in zip(OUTER, schemas, strict=True)
        if schema is not None
    }
    streams = {shape.join.right: "right", shape.join.left: "left"}
    return Scope("left and right", {}, "in a join", sides, streams=streams) if len(sides) == len(OUTER) else None


def is_null(shape: JoinShape, name: str) -> bool:
    """Whether all attributes of this side are null in an output without a partner: `default_right: null` (NU26)."""
    key = f"default_{name}"
    return key in shape.model_fields_set and getattr(shape, key) is None


def side(checks: ExpressionChecks, index: int, shape: JoinShape, name: str) -> Side:
    stream = getattr(shape.join, name)
    keys_key = f"partition_by_{name}"
    scope = checks.scope(stream, "in a join", name)
    outer = shape.algorithm in OUTER[name]
    return Side(
        stream=stream,
        window=UNKNOWN if shape.window is not None else side_window(checks, index, shape, name, scope),
        partition_by=checks.keys(checks.path(index, keys_key), getattr(shape, keys_key), scope),
        equality=checks.keys(checks.path(index, f"equality_{name}"), getattr(shape, f"equality_{name}"), scope),
        outer=outer,
        unmatched=unmatched(checks, index, shape, name),
        default=default(checks, index, shape, name),
    )


def side_window(
    checks: ExpressionChecks, index: int, shape: JoinShape, name: str, scope: Scope | None
) -> Sliding:  # fmt: skip
    """The window of one side; UNKNOWN if it is wrong or missing, which is reported."""
    key = f"window_{name}"
    text: str | None = getattr(shape, key)
    if text is None:
        return UNKNOWN
    clause, of_side = window(text, checks.path(index, key), scope, checks.report, storing=False)
    if not clause.faults:
        check_window(checks, index, key, clause)
        checks.check_partitioned(index, key, f"partition_by_{name}", partitioned=clause.partitioned)
    return Sliding.narrowed(of_side) if of_side.sliding else UNKNOWN


def check_window(checks: ExpressionChecks, index: int, key: str, clause: ParsedClause) -> None:
    """Checks that the window is sliding with the trigger count(1): each tuple is matched when it arrives (J1)."""
    if clause.tumbling or clause.whole or clause.sizes is not None:
        checks.report.problem(checks.path(index, key), "a sliding window, as in every join (rule W18)")
    elif any(policy != Count(1) for _, policy, _ in clause.policies[1:]):
        part = clause.policies[1].part
        expected = "count(1) as trigger, or none, as every tuple is paired when it arrives (rule W18)"
        checks.report.problem(checks.path(index, key), expected, part.text, None, part.column)


def check_equality(checks: ExpressionChecks, index: int, sides: Mapping[str, Side]) -> None:
    shape = checks.streams.operators[index]
    assert isinstance(shape, JoinShape)  # noqa: S101
    left, right = shape.equality_left, shape.equality_right
    path = checks.path(index, "equality_left" if len(left) < len(right) else "equality_right")
    if len(left) != len(right):
        fewer = min(len(left), len(right))
        checks.report.problem(path, f"{max(len(left), len(right))} entries, as on the other side (rule J3)", str(fewer))
        return
    keys = sides["left"].equality, sides["right"].equality
    if any(len(side) < len(left) for side in keys):
        return
    for position, (a, b) in enumerate(zip(*keys, strict=True)):
        if a.type.present != b.type.present:
            path = checks.path(index, "equality_right", position)
            checks.report.problem(path, f"{a.type}, as {left[position]} on the left, not {b.type} (rule J3)")


def known(checks: ExpressionChecks, index: int) -> bool:
    """Whether the value of `algorithm` in the file is valid. If it is not, the parsed file has the default."""
    return not checks.shaped.partly(checks.path(index, "algorithm"))


def unmatched(checks: ExpressionChecks, index: int, shape: JoinShape, name: str) -> Output | None:
    key = f"unmatched_{name}"
    stream: str | None = getattr(shape, key)
    if stream is None:
        return None
    if known(checks, index) and shape.algorithm not in OUTER[name]:
        expected = f"none with {shape.algorithm}, which reports no tuple of the {name} side alone (rule J2)"
        checks.report.problem(checks.path(index, key), expected)
    return checks.output(index, stream, checks.unchanged(getattr(shape.join, name), name))


def default(checks: ExpressionChecks, index: int, shape: JoinShape, name: str) -> tuple[Value, ...]:
    """The attribute values of this side in an output tuple whose tuple of the other side has no partner."""
    values: dict[str, object] | None = getattr(shape, f"default_{name}")
    schema = checks.streams.schemas.get(getattr(shape.join, name), ())
    null = is_null(shape, name)
    if (values is None and not null) or not schema:
        return tuple(kind.empty for _, kind in schema)
    path = checks.path(index, f"default_{name}")
    if known(checks, index) and shape.algorithm not in OUTER[OTHER[name]]:
        expected = f"none with {shape.algorithm}, in which the {name} side always has a tuple (rule J5)"
        checks.report.problem(path, expected)
    elif getattr(shape, f"unmatched_{OTHER[name]}"):
        expected = f"none beside unmatched_{OTHER[name]}, to which tuples go as they are (rule J5)"
        checks.report.problem(path, expected)
    if values is None:
        return tuple(None for _ in schema)
    for attribute in values:
        if attribute not in dict(schema):
            expected = f"an attribute of {name} ({', '.join(dict(schema))})"
            checks.report.problem((*path, attribute), expected, attribute, nearest(attribute, dict(schema)))
    return tuple(defaults(checks, index, name, values, schema))


def defaults(
    checks: ExpressionChecks, index: int, name: str, file_values: Mapping[str, object], schema: Schema
) -> list[Value]:
    values = []
    for attribute, kind in schema:
        values.append(kind.empty)
        if attribute in file_values:
            try:
                values[-1] = read_value(file_values[attribute], kind)
            except ValueError:
                checks.report.problem(checks.path(index, f"default_{name}", attribute), f"a value of {kind}")
    return values
