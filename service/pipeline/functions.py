"""The functions that expressions know: one row each, with the types that it takes and gives.

A signature reads `int64, float64 -> float64 : kernel`. An int64 goes where a float64 is asked for. `any` and `scalar`
(anything but a list) stand for one type; a word that occurs twice means the same type twice. `literal` behind a type
asks for a constant. The kernel, which engine/expressions.py knows, computes that signature.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from service.pipeline.types import FLOAT64, INT64, Kind, Type, list_of, parse_type


@dataclass(frozen=True, slots=True)
class Signature:
    parameters: tuple[str, ...]
    result: str
    kernel: str

    def __str__(self) -> str:
        return f"{', '.join(self.parameters)} -> {self.result}".strip()


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    signatures: tuple[Signature, ...]
    meaning: str

    def calls(self) -> tuple[str, ...]:
        """How it may be called: `Sum(int64)`, `Sum(float64)`."""
        return tuple(f"{self.name}({', '.join(s.parameters)})" for s in self.signatures)


def row(name: str, meaning: str, *signatures: str) -> Function:
    return Function(name, tuple(map(read_signature, signatures)), meaning)


def read_signature(text: str) -> Signature:
    parameters, _, rest = text.partition("->")
    result, _, kernel = rest.partition(":")
    return Signature(tuple(p.strip() for p in parameters.split(",") if p.strip()), result.strip(), kernel.strip())


OPERATORS: Mapping[str, Function] = {f.name: f for f in (
    row("+", "sum; strings one after the other; a timestamp some seconds later",
        "int64, int64 -> int64 : add", "float64, float64 -> float64 : add", "string, string -> string : concatenate",
        "timestamp, int64 -> timestamp : later", "timestamp, float64 -> timestamp : later"),
    row("-", "difference, or the negative; of two timestamps in seconds; a timestamp some seconds earlier",
        "int64, int64 -> int64 : subtract", "float64, float64 -> float64 : subtract",
        "timestamp, timestamp -> float64 : seconds_between",
        "timestamp, int64 -> timestamp : earlier", "timestamp, float64 -> timestamp : earlier",
        "int64 -> int64 : negate", "float64 -> float64 : negate"),
    row("*", "product", "int64, int64 -> int64 : multiply", "float64, float64 -> float64 : multiply"),
    row("/", "quotient, never cut to an integer; x / 0 is an infinity or NaN", "float64, float64 -> float64 : divide"),
    row("%", "remainder, with the sign of the left side; no value for int64 % 0, NaN for float64 % 0",
        "int64, int64 -> int64 : remainder", "float64, float64 -> float64 : remainder"),
    row("==", "equal; NaN equals nothing", "scalar, scalar -> boolean : equal"),
    row("!=", "not equal", "scalar, scalar -> boolean : not_equal"),
    row("<", "less; strings by their UTF-8 bytes, false before true", "scalar, scalar -> boolean : less"),
    row("<=", "less or equal", "scalar, scalar -> boolean : less_equal"),
    row(">", "greater", "scalar, scalar -> boolean : greater"),
    row(">=", "greater or equal", "scalar, scalar -> boolean : greater_equal"),
    row("and", "both hold; also written &&", "boolean, boolean -> boolean : and_kleene"),
    row("or", "one of them holds; also written ||", "boolean, boolean -> boolean : or_kleene"),
    row("not", "does not hold; also written !", "boolean -> boolean : invert"),
    row("if", "condition ? value if it holds : value if not", "boolean, any, any -> any : if_else"),
)}  # fmt: skip

FUNCTIONS: Mapping[str, Function] = {f.name: f for f in (
    # numbers
    row("abs", "without its sign", "int64 -> int64 : abs", "float64 -> float64 : abs"),
    row("min", "the smaller one; a NaN on the right is ignored", "scalar, scalar -> scalar : smaller"),
    row("max", "the larger one; a NaN on the right is ignored", "scalar, scalar -> scalar : larger"),
    row("floor", "the next whole number below", "int64 -> int64 : same", "float64 -> float64 : floor"),
    row("ceil", "the next whole number above", "int64 -> int64 : same", "float64 -> float64 : ceil"),
    row("round", "the nearest whole number, halves away from zero; with a number of decimals",
        "int64 -> int64 : same", "float64 -> float64 : round_half_away",
        "float64, int64 literal -> float64 : round_half_away"),
    row("sqrt", "square root; NaN below 0", "float64 -> float64 : sqrt"),
    row("pow", "the first to the power of the second", "float64, float64 -> float64 : power"),
    row("exp", "e to the power of", "float64 -> float64 : exp"),
    row("log", "natural logarithm; -Infinity at 0, NaN below", "float64 -> float64 : ln"),
    row("log10", "logarithm to base 10", "float64 -> float64 : log10"),
    row("sin", "sine, of radians", "float64 -> float64 : sin"),
    row("cos", "cosine, of radians", "float64 -> float64 : cos"),
    row("isNaN", "is it not a number?", "float64 -> boolean : is_nan"),
    # strings
    row("length", "number of characters", "string -> int64 : characters"),
    row("lower", "in lower case", "string -> string : utf8_lower"),
    row("upper", "in upper case", "string -> string : utf8_upper"),
    row("trim", "without white space at both ends", "string -> string : utf8_trim_whitespace"),
    row("substring", "from a position (the first is 0), so many characters or to the end",
        "string, int64 -> string : substring", "string, int64, int64 -> string : substring"),
    row("contains", "is the second somewhere in the first?", "string, string -> boolean : contains"),
    row("startsWith", "does the first start with the second?", "string, string -> boolean : starts_with"),
    row("endsWith", "does the first end with the second?", "string, string -> boolean : ends_with"),
    row("indexOf", "position of the second in the first, -1 if it is not there", "string, string -> int64 : index_of"),
    row("replace", "the first with each occurrence of the second replaced by the third",
        "string, string, string -> string : replace"),
    # conversions
    row("int64", "floats are cut toward zero, true is 1; no value for NaN, what does not fit and other texts",
        "int64 -> int64 : same", "float64 -> int64 : to_int64", "boolean -> int64 : to_int64",
        "string -> int64 : to_int64"),
    row("float64", "no value for a text that is no number",
        "float64 -> float64 : same", "int64 -> float64 : to_float64", "boolean -> float64 : to_float64",
        "string -> float64 : to_float64"),
    row("string", "as in JSON, without quotes", "scalar -> string : to_string"),
    row("boolean", "true unless 0; of the texts true and false",
        "boolean -> boolean : same", "int64 -> boolean : nonzero", "float64 -> boolean : nonzero",
        "string -> boolean : to_boolean"),
    row("timestamp", "of seconds since 1970, or of an ISO 8601 text (without zone: UTC)",
        "timestamp -> timestamp : same", "int64 -> timestamp : from_seconds", "float64 -> timestamp : from_seconds",
        "string -> timestamp : to_timestamp"),
    # times, all in UTC
    row("fromMilliseconds", "of milliseconds since 1970", "int64 -> timestamp : from_milliseconds"),
    row("fromNanoseconds", "of nanoseconds since 1970", "int64 -> timestamp : from_nanoseconds"),
    row("toSeconds", "seconds since 1970", "timestamp -> float64 : to_seconds"),
    row("toMilliseconds", "whole milliseconds since 1970", "timestamp -> int64 : to_milliseconds"),
    row("toNanoseconds", "nanoseconds since 1970", "timestamp -> int64 : to_nanoseconds"),
    row("year", "year", "timestamp -> int64 : year"),
    row("month", "month, from 1", "timestamp -> int64 : month"),
    row("day", "day of the month, from 1", "timestamp -> int64 : day"),
    row("hour", "hour, 0 to 23", "timestamp -> int64 : hour"),
    row("minute", "minute, 0 to 59", "timestamp -> int64 : minute"),
    row("second", "whole second, 0 to 59", "timestamp -> int64 : second"),
    row("dayOfWeek", "1 (Monday) to 7", "timestamp -> int64 : day_of_week"),
    row("dayOfYear", "1 to 366", "timestamp -> int64 : day_of_year"),
    # values
    row("orElse", "the first, or the second where the first has no value", "any, any -> any : coalesce"),
    row("size", "number of elements", "list<any> -> int64 : size"),
)}  # fmt: skip

#: computed over the tuples of a group; never empty (A4)
AGGREGATES: Mapping[str, Function] = {f.name: f for f in (
    row("Count", "tuples", "-> int64 : count"),
    row("Sum", "sum, an int64 wraps around; strings one after the other",
        "int64 -> int64 : sum", "float64 -> float64 : sum", "string -> string : join"),
    row("Average", "mean; of int64 cut toward zero (A20)", "int64 -> int64 : average", "float64 -> float64 : average"),
    row("Max", "largest; a NaN stays only where it comes first (A16)", "scalar -> scalar : max"),
    row("Min", "smallest; a NaN stays only where it comes first (A16)", "scalar -> scalar : min"),
    row("ArgMax", "the second of the first tuple in which the first is largest", "scalar, any -> any : argmax"),
    row("ArgMin", "the second of the first tuple in which the first is smallest", "scalar, any -> any : argmin"),
    row("First", "of the first tuple", "any -> any : first"),
    row("Last", "of the last tuple", "any -> any : last"),
    row("Any", "of some tuple; in fact of the last", "any -> any : last"),
    row("Collect", "all, in the order of arrival", "scalar -> list<scalar> : collect"),
)}  # fmt: skip

#: words that stand for a type, and whether a list may be one
VARIABLES = {"any": True, "scalar": False}


@dataclass(frozen=True, slots=True)
class Match:
    """A signature that fits some arguments, the types that it wants them in, and the type it gives."""

    signature: Signature
    arguments: tuple[Type, ...]
    result: Type


@lru_cache(maxsize=1024)
def match(function: Function, types: tuple[Type, ...]) -> Match | None:
    """The signature that takes arguments of just these types, else the first that takes them."""
    found = [m for m in (fit(signature, types) for signature in function.signatures) if m]
    return next((m for m in found if m.arguments == types), found[0] if found else None)


def fit(signature: Signature, types: Sequence[Type]) -> Match | None:
    if len(types) != len(signature.parameters):
        return None
    words = [parameter.removesuffix(" literal") for parameter in signature.parameters]
    bound: dict[str, Type] = {}
    for word, given in zip(words, types, strict=True):
        wanted = bind(word, given, bound)
        if wanted is None or common(wanted, given) != wanted:
            return None
    return Match(signature, tuple(named(w, bound) for w in words), named(signature.result, bound))


def bind(word: str, given: Type, bound: dict[str, Type]) -> Type | None:
    """The type that `word` asks for when it is given this one, remembered if `word` stands for a type."""
    if word.startswith("list<"):
        element = bind(word[5:-1], given.element, bound) if given.element else None
        return list_of(element) if element else None
    if word not in VARIABLES:
        return named(word, bound)
    if given.kind is Kind.LIST and not VARIABLES[word]:
        return None
    joined = common(bound.get(word, given), given)
    if joined:
        bound[word] = joined
    return joined


def common(one: Type, other: Type) -> Type | None:
    """The type that holds the values of both."""
    if one == other:
        return one
    return FLOAT64 if {one, other} == {INT64, FLOAT64} else None


def named(word: str, bound: Mapping[str, Type]) -> Type:
    if word.startswith("list<"):
        return list_of(named(word[5:-1], bound))
    return bound[word] if word in bound else parse_type(word)
