"""Whether the arguments of a call fit a signature, and the texts of calls and signatures in messages."""

from __future__ import annotations

from collections.abc import Iterable

from sluice.model.errors import one_of
from sluice.model.expressions import Call, Expression, Literal
from sluice.model.functions import CONSTANTS, OPERATORS, SHOWN, VARIABLES, WIDER, Function, Signature, is_regex
from sluice.model.types import INT64, Type, takes


def converted(value: Expression, type_: Type) -> Expression:
    """The value, converted to the type in a signature by the function of the type's name: an int64 to float64, or a
    number to an exact type that has all its digits.
    """
    if value.type == type_:
        return value
    if isinstance(value, Literal) and value.value is None:
        return Literal(None, type_)
    if takes(type_, value.type):  # the same values, which may be null, or parts of them (NU33)
        return Call(WIDER, (value,), type_)
    if isinstance(value, Literal):
        return Literal(type_.present.of_number(value.value), type_)
    return Call(type_.present.word, (value, *(Literal(digits, INT64) for digits in type_.present.digits)), type_)


def constants_fit(signature: Signature, arguments: list[Expression]) -> bool:
    """Whether each constant argument has an allowed value, and a replacement fits its regular expression."""
    if not all(map(constant_fits, signature.parameters, arguments)):
        return False
    texts = {word: str(argument.value) for word, argument in zip(signature.parameters, arguments, strict=False)
             if isinstance(argument, Literal)}  # fmt: skip
    replacement = texts.get("replacement", rf"\{texts['group']}" if "group" in texts else None)
    return replacement is None or is_regex(texts["regex"], replacement)


def wrong_constant(signature: Signature, arguments: list[Expression]) -> tuple[str, str] | None:
    """The meaning of the first constant argument whose value is not allowed, and this value; None if there is none."""
    for word, argument in zip(signature.parameters, arguments, strict=False):
        if word in CONSTANTS and isinstance(argument, Literal) and not constant_fits(word, argument):
            return CONSTANTS[word].meaning, str(argument.value)
    return None


def constant_fits(word: str, value: Expression) -> bool:
    if word in CONSTANTS:
        return isinstance(value, Literal) and CONSTANTS[word].fits(value.value)
    return isinstance(value, Literal) or not word.endswith(" literal")


def signatures(function: Function, arguments: int) -> str:
    """The calls of a function with this number of arguments; all its calls if none has this number."""
    fitting = [s for s in function.signatures if len(s.parameters) == arguments] or function.signatures
    calls = (call(function.name, map(meaning, s.parameters)) + " of one type" * repeats(s) for s in fitting)
    return one_of(dict.fromkeys(calls))


def meaning(word: str) -> str:
    """The word of a parameter in messages; that an int64 stands for another number is not said."""
    return CONSTANTS[word].meaning if word in CONSTANTS else SHOWN.get(word, word)


def repeats(signature: Signature) -> bool:
    """Whether two parameters must have the same type."""
    return any(signature.parameters.count(word) > 1 for word in VARIABLES)


def call(name: str, arguments: Iterable[str]) -> str:
    """The text of a call in messages: `Sum(int64)`, `int64 + int64`."""
    words = list(arguments)
    if name == "!":
        return f"{words[0]}!"
    if name == "if":
        return "{} ? {} : {}".format(*words)
    if name not in OPERATORS:
        return f"{name}({', '.join(words)})"
    return f" {name} ".join(words) if len(words) > 1 else f"{name} {words[0]}"
