"""Values of a pipeline as the text that the file has for them: lengths of time, and expressions."""

from __future__ import annotations

from collections.abc import Iterable

from sluice.model.errors import one_of
from sluice.model.expressions import AggregateCall, Attribute, Call, Expression, Literal, null_from
from sluice.model.functions import INSIDES, OPERATORS
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


def nulls(one: Expression) -> str:
    """The parts from which the null of an expression comes, for messages: `price or size`."""
    return one_of(dict.fromkeys(map(expression, null_from(one))))


def expression(one: Expression) -> str:
    """The expression, with parentheses around what is inside of another operator."""
    match one:
        case Literal():
            return one.type.literal(one.value)
        case Attribute():
            return f"{one.port}.{one.name}" if one.port else one.name
        case Call() if one.function in INSIDES:
            return _inside_of(one)
        case Call() if one.function in OPERATORS:
            return _operator(one.function, [_inside(argument) for argument in one.arguments])
        case Call():
            return f"{one.function}({expressions(one.arguments)})"
        case AggregateCall():
            condition = [] if one.where is None else [f"where: {expression(one.where)}"]
            return f"{one.function}({', '.join([*map(expression, one.arguments), *condition])})"


def _inside(argument: Expression) -> str:
    text = expression(argument)
    return f"({text})" if isinstance(argument, Call) and argument.function in SIGNS else text


def _inside_of(one: Call) -> str:
    """A member of a struct, or a struct, list or map that is written out."""
    if one.function == ".":
        value, name = one.arguments
        assert isinstance(name, Literal)  # noqa: S101 - the name of a member
        return f"{_inside(value)}.{name.value}"
    if one.function == "[]":
        return f"[{expressions(one.arguments)}]"
    pairs = zip(one.arguments[::2], one.arguments[1::2], strict=True)
    names = ((key.value if isinstance(key, Literal) and one.function == "{}" else expression(key), value)
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
