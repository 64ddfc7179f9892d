"""Values of a pipeline as the text that the file has for them: lengths of time, and expressions."""

from __future__ import annotations

from collections.abc import Iterable

from sluice.model.errors import one_of
from sluice.model.expressions import AggregateCall, Attribute, Call, Expression, Literal, null_from
from sluice.model.functions import INSIDES, OPERATORS, WIDER
from sluice.time_units import SECOND

# ---- lengths of time ------------------------------------------------------------------------------------------------


def number(nanoseconds: int) -> str:
    """Seconds as SPL writes them, with a point."""
    text = seconds(nanoseconds)
    return text if "." in text else f"{text}.0"


def seconds(nanoseconds: int) -> str:
    """A length of time for people, exactly: `0.5`, `300`."""
    whole, rest = divmod(abs(nanoseconds), SECOND)
    text = f"{whole}.{rest:09}".rstrip("0") if rest else str(whole)
    return f"-{text}" if nanoseconds < 0 else text


#: operators that need parentheses inside of another one
SIGNS = OPERATORS.keys() - {"!"}

# ---- expressions -----------------------------------------------------------------------------------------------------


def expressions(several: Iterable[Expression]) -> str:
    return ", ".join(map(expression, several))


def nulls(node: Expression) -> str:
    """The parts from which the null of an expression comes, for messages: `price or size`."""
    return one_of(dict.fromkeys(map(expression, null_from(node))))


def expression(node: Expression) -> str:
    """The expression, with parentheses around what is inside of another operator."""
    match node:
        case Literal():
            return node.type.literal(node.value)
        case Attribute():
            return f"{node.port}.{node.name}" if node.port else node.name
        case Call() if node.function in INSIDES:
            return _inside_of(node)
        case Call() if node.function in OPERATORS:
            return _operator(node.function, [_inside(argument) for argument in node.arguments])
        case Call():
            return f"{node.function}({expressions(node.arguments)})"
        case AggregateCall():
            condition = [] if node.where is None else [f"where: {expression(node.where)}"]
            return f"{node.function}({', '.join([*map(expression, node.arguments), *condition])})"


def _inside(argument: Expression) -> str:
    text = expression(argument)
    while isinstance(argument, Call) and argument.function == WIDER:
        (argument,) = argument.arguments
    return f"({text})" if isinstance(argument, Call) and argument.function in SIGNS else text


def _inside_of(node: Call) -> str:
    """A member of a struct, or a struct, list or map that is written out."""
    if node.function == WIDER:
        return expression(node.arguments[0])
    if node.function == ".":
        value, name = node.arguments
        assert isinstance(name, Literal)  # noqa: S101 - the name of a member
        return f"{_inside(value)}.{name.value}"
    if node.function == "[]":
        return f"[{expressions(node.arguments)}]"
    pairs = zip(node.arguments[::2], node.arguments[1::2], strict=True)
    names = ((key.value if isinstance(key, Literal) and node.function == "{}" else expression(key), value)
             for key, value in pairs)  # fmt: skip
    return f"{{{', '.join(f'{name}: {expression(value)}' for name, value in names)}}}"


def _operator(sign: str, arguments: list[str]) -> str:
    match arguments:
        case [condition, yes, no]:
            return f"{condition} ? {yes} : {no}"
        case [left, right]:
            return f"{left} {sign} {right}"
        case [only]:
            return {"not": f"not {only}", "!": f"{only}!"}.get(sign, f"{sign}{only}")
    raise AssertionError(sign)
