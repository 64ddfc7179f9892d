"""The tables of the functions of expressions: one row for each function, with its signatures.

A signature has the form `int64, float64 -> float64 : kernel`. An int64 argument fits a float64 parameter. `any` stands
for any type, `scalar` for any type except a list. If such a word occurs twice in a signature, both stand for the same
type. `literal` after a type requires a constant; a word of CONSTANTS requires a constant with certain values.
`decimal by total` is the type that the function `total` of RULES gives for the arguments.
A type with many functions adds its signatures to these rows: it has a module in FURTHER.

A signature holds for optional types, too: it takes `int64?` where it takes `int64`, and `optional` of the row says
whether the result is then optional.

The kernel is the name of the implementation of this signature in engine/stream/functions/. An aggregation
function has no kernel in its row: engine/aggregates/function_table.py finds it by the function's name.
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from sluice.model.types import (
    FLOAT64,
    INT64,
    STRING,
    MapType,
    Type,
    decimal_signatures,
    list_of,
    map_of,
    optional_of,
    parse_type,
    takes,
    united,
)
from sluice.model.types.type_contract import top_level

#: the modules of types that add signatures
FURTHER = (decimal_signatures,)


@dataclass(frozen=True, slots=True)
class Signature:
    parameters: tuple[str, ...]
    result: str
    kernel: str
    #: the name of the function in RULES that gives the type of the result; empty if `result` says it
    rule: str = ""

    def __str__(self) -> str:
        return f"{', '.join(self.parameters)} -> {self.result}".strip()


def if_any(types: Sequence[Type]) -> bool:
    """The result is null if an argument is (NU7, NU17)."""
    return any(type_.optional for type_ in types)


def if_last(types: Sequence[Type]) -> bool:
    return types[-1].optional


def if_branch(types: Sequence[Type]) -> bool:
    return if_any(types[1:])


def if_alone(types: Sequence[Type]) -> bool:
    """With a second argument, a cap, the result is a list, which has no null (NU19)."""
    return types[0].optional and len(types) == 1


def never(_: Sequence[Type]) -> bool:
    return False


def always(_: Sequence[Type]) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    signatures: tuple[Signature, ...]
    #: for the documentation; empty: the meaning in the row before is for this row, too
    meaning: str
    #: whether an int64 result lacks the fraction that the exact result has
    cuts: bool = False
    #: whether the result may be null, by the types of the arguments
    optional: Callable[[Sequence[Type]], bool] = if_any
    #: whether each parameter takes null; else only those whose type has a `?`
    nulls: bool = True


def row(
    name: str, meaning: str, *signatures: str, cuts: bool = False,
    optional: Callable[[Sequence[Type]], bool] = if_any,
) -> Function:  # fmt: skip
    """The row of a function, with the signatures that the types in FURTHER add: before one that takes any type."""
    added = [text for module in FURTHER for text in module.SIGNATURES.get(name, ())]
    general = any(text.startswith("scalar") for text in signatures)
    listed = (*added, *signatures) if general else (*signatures, *added)
    return Function(name, tuple(map(read_signature, listed)), meaning, cuts, optional)


def read_signature(text: str) -> Signature:
    parameters, _, rest = text.partition("->")
    result, _, kernel = rest.partition(":")
    result, _, rule = result.partition(" by ")
    return Signature(top_level(parameters), result.strip(), kernel.strip(), rule.strip())


#: a value as one of a type that differs only in further `?`, at any depth (NU33): it has no sign in an expression
WIDER = "?"
#: what is typed by the members and elements of its arguments, and has no signatures -> its kernel: the member of a
#: struct, a struct of names and values, a list of values, a map of keys and values (ST8 to ST11)
INSIDES: Mapping[str, str] = {
    ".": "member", "{}": "struct", "[]": "list_value", "{:}": "map_value", WIDER: "same",
}  # fmt: skip


OPERATORS: Mapping[str, Function] = {f.name: f for f in (
    row("+", "sum; concatenation of strings; a timestamp plus seconds",
        "int64, int64 -> int64 : add", "float64, float64 -> float64 : add", "string, string -> string : concatenate",
        "timestamp, int64 -> timestamp : later", "timestamp, float64 -> timestamp : later"),
    row("-", "difference, or the negative value; seconds between two timestamps; a timestamp minus seconds",
        "int64, int64 -> int64 : subtract", "float64, float64 -> float64 : subtract",
        "timestamp, timestamp -> float64 : seconds_between",
        "timestamp, int64 -> timestamp : earlier", "timestamp, float64 -> timestamp : earlier",
        "int64 -> int64 : negate", "float64 -> float64 : negate"),
    row("*", "product", "int64, int64 -> int64 : multiply", "float64, float64 -> float64 : multiply"),
    row("/", "quotient, a float64, with a decimal a decimal; x / 0 is an infinity or NaN, of decimals no value",
        "float64, float64 -> float64 : divide"),
    row("%", "remainder with the sign of the left side; no value for int64 % 0 and decimal % 0, NaN for float64 % 0",
        "int64, int64 -> int64 : remainder", "float64, float64 -> float64 : remainder"),
    row("==", "equal, or not equal; NaN is not equal to any value", "scalar, scalar -> boolean : equal"),
    row("!=", "", "scalar, scalar -> boolean : not_equal"),
    row("<", "less or greater, or equal; strings compare by their UTF-8 bytes, false is less than true",
        "scalar, scalar -> boolean : less"),
    row("<=", "", "scalar, scalar -> boolean : less_equal"),
    row(">", "", "scalar, scalar -> boolean : greater"),
    row(">=", "", "scalar, scalar -> boolean : greater_equal"),
    # a comparison with null is null (NU9); false decides for `and`, true for `or`, also beside null (NU8)
    row("and", "true if both are true; also written &&", "boolean, boolean -> boolean : and_kleene"),
    row("or", "true if at least one is true; also written ||", "boolean, boolean -> boolean : or_kleene"),
    row("not", "true if the argument is false; also written !", "boolean -> boolean : invert"),
    row("if", "the second argument if the first is true, otherwise the third; written condition ? a : b",
        "boolean, any, any -> any : choice", optional=if_branch),
    row("?:", "the first argument, or the second if the first is null (NU12)", "any, any -> any : first_present",
        optional=if_last),
    row("!", "the argument, which is not null; no value if it is; written x! (NU13)", "any -> any : present",
        optional=never),
)}  # fmt: skip

FUNCTIONS: Mapping[str, Function] = {f.name: f for f in (
    # numbers
    row("abs", "absolute value", "int64 -> int64 : abs", "float64 -> float64 : abs"),
    row("min", "the smaller or larger argument; NaN as the second argument is ignored",
        "scalar, scalar -> scalar : smaller"),
    row("max", "", "scalar, scalar -> scalar : larger"),
    row("floor", "the nearest whole number that is not greater, or not less",
        "int64 -> int64 : same", "float64 -> float64 : floor"),
    row("ceil", "", "int64 -> int64 : same", "float64 -> float64 : ceil"),
    row("round", "the nearest number with n decimals (0 by default), halves away from zero",
        "int64 -> int64 : same", "float64 -> float64 : round_half_away",
        "float64, int64 literal -> float64 : round_half_away"),
    row("divide", "the quotient with the given number of digits behind the point, rounded half to even; no value for 0 "
        "as the second argument"),
    row("sqrt", "square root; NaN for negative numbers", "float64 -> float64 : sqrt"),
    row("pow", "the first argument to the power of the second", "float64, float64 -> float64 : power"),
    row("exp", "e to the power of the argument", "float64 -> float64 : exp"),
    row("log", "natural logarithm, or logarithm to the base that is the second argument; -Infinity for 0, NaN for "
        "negative numbers", "float64 -> float64 : ln", "float64, float64 -> float64 : logb"),
    row("log10", "logarithm to base 10 or 2", "float64 -> float64 : log10"),
    row("log2", "", "float64 -> float64 : log2"),
    row("sin", "trigonometric, with angles in radians; asin and acos are NaN outside -1 to 1",
        "float64 -> float64 : sin"),
    row("cos", "", "float64 -> float64 : cos"),
    row("tan", "", "float64 -> float64 : tan"),
    row("asin", "", "float64 -> float64 : asin"),
    row("acos", "", "float64 -> float64 : acos"),
    row("atan", "", "float64 -> float64 : atan"),
    row("atan2", "angle in radians of the point (second, first)",
        "float64, float64 -> float64 : atan2"),
    row("sinh", "hyperbolic sine, cosine, tangent", "float64 -> float64 : sinh"),
    row("cosh", "", "float64 -> float64 : cosh"),
    row("tanh", "", "float64 -> float64 : tanh"),
    row("radians", "an angle in degrees as radians, or the reverse", "float64 -> float64 : radians"),
    row("degrees", "", "float64 -> float64 : degrees"),
    row("pi", "3.141592653589793", "-> float64 : pi"),
    row("cbrt", "cube root", "float64 -> float64 : cbrt"),
    row("haversine", "metres along the great circle between two points, each a latitude and a longitude in degrees, "
        "on a sphere with a radius of 6,371,008.8 metres", "float64, float64, float64, float64 -> float64 : haversine"),
    row("trunc", "the number without its fraction", "int64 -> int64 : same", "float64 -> float64 : trunc"),
    row("sign", "-1, 0 or 1; NaN for NaN", "int64 -> int64 : sign", "float64 -> float64 : sign"),
    row("isNaN", "whether the argument is NaN, or neither NaN nor an infinity", "float64 -> boolean : is_nan"),
    row("isFinite", "", "float64 -> boolean : is_finite"),
    row("bitAnd", "bitwise and, or, exclusive or", "int64, int64 -> int64 : bit_wise_and"),
    row("bitOr", "", "int64, int64 -> int64 : bit_wise_or"),
    row("bitXor", "", "int64, int64 -> int64 : bit_wise_xor"),
    # strings
    row("length", "number of characters", "string -> int64 : characters"),
    row("lower", "the string in lower or upper case", "string -> string : utf8_lower"),
    row("upper", "", "string -> string : utf8_upper"),
    row("trim", "the string without white space at both ends, the start or the end",
        "string -> string : utf8_trim_whitespace"),
    row("trimStart", "", "string -> string : utf8_ltrim_whitespace"),
    row("trimEnd", "", "string -> string : utf8_rtrim_whitespace"),
    row("substring", "n characters from a position (from 0), or all up to the end",
        "string, int64 -> string : substring", "string, int64, int64 -> string : substring"),
    row("left", "the first or last n characters; none for a negative n",
        "string, int64 -> string : left"),
    row("right", "",
        "string, int64 -> string : right"),
    row("repeat", "the string, written as often as the second argument says", "string, width -> string : repeated"),
    row("titleCase", "each word with its first letter in upper case, the others in lower case",
        "string -> string : utf8_title"),
    row("padStart", "the string, padded at the start or end to a width with spaces or a character",
        "string, width -> string : pad_start", "string, width, character -> string : pad_start"),
    row("padEnd", "",
        "string, width -> string : pad_end",
        "string, width, character -> string : pad_end"),
    row("reverse", "the characters, or the elements, in reverse order", "string -> string : utf8_reverse",
        "list<any> -> list<any> : list_reverse"),
    row("split", "the parts between the occurrences of the separator", "string, separator -> list<string> : split"),
    row("join", "the strings of the list, joined with the second argument between them; no value if that is no "
        "constant and would need more than a megabyte",
        "list<string>, string -> string : join"),
    row("regexContains", "whether the regular expression matches a part of the string",
        "string, regex -> boolean : regex_contains"),
    row("regexExtract", "the first match of the regular expression, or the group of it that the third argument numbers "
        "from 1; no value without a match",
        "string, regex -> string : regex_extract", "string, regex, group -> string : regex_extract"),
    row("regexExtractAll", "all matches of the regular expression, or a group of each; no value for a text with the "
        "code point U+10FFFF", "string, regex -> list<string> : regex_extract_all",
        "string, regex, group -> list<string> : regex_extract_all"),
    row("regexCount", "the number of matches of the regular expression", "string, regex -> int64 : regex_count"),
    row("regexReplace", r"the string with all matches replaced by the third, in which \1 is the first group",
        "string, regex, replacement -> string : regex_replace"),
    row("contains", "whether the second argument occurs in the first", "string, string -> boolean : contains",
        "list<scalar>, scalar -> boolean : list_contains", "map<key, any>, key -> boolean : has_key"),
    row("startsWith", "whether the first argument starts or ends with the second",
        "string, string -> boolean : starts_with"),
    row("endsWith", "", "string, string -> boolean : ends_with"),
    row("indexOf", "position of the second argument in the first (from 0), or -1",
        "string, string -> int64 : index_of",
        "list<scalar>, scalar -> int64 : list_index"),
    row("replace", "the first argument with each occurrence of the second replaced by the third; no value if these are "
        "no constants and the result is longer than the first and than 1,048,576 characters",
        "string, string, string -> string : replace"),
    row("urlPart", "a part of a URL; null if the URL lacks it", "string, part -> string? : url_part"),
    row("urlParameter", "the first value of a parameter in the query of a URL; null without the parameter",
        "string, string -> string? : url_parameter"),
    row("urlEncode", "the string as a value in the query of a URL", "string -> string : url_encode"),
    row("urlDecode", "the string that such a value stands for", "string -> string : url_decode"),
    row("md5", "hash in hexadecimal digits, of the UTF-8 bytes of a string", "string -> string : md5",
        "bytes -> string : md5"),
    row("sha1", "", "string -> string : sha1", "bytes -> string : sha1"),
    row("sha256", "", "string -> string : sha256", "bytes -> string : sha256"),
    row("sha512", "", "string -> string : sha512", "bytes -> string : sha512"),
    row("crc32", "checksum, from 0 to 4294967295", "string -> int64 : crc32", "bytes -> int64 : crc32"),
    row("hex", "the bytes, of a string its UTF-8 bytes, in hexadecimal digits", "string -> string : hexadecimal",
        "bytes -> string : hexadecimal"),
    row("base64", "the UTF-8 bytes of the string in base64", "string -> string : base64"),
    row("text", "the string with these UTF-8 bytes; no value for other bytes", "bytes -> string : utf8_text"),
    # conversions
    row("decimal", "a number or its text, with so many digits behind the point, or digits in all and behind the point; "
        "rounded half to even; no value for NaN, for numbers with more digits and for other texts"),
    row("int64", "a number without its fraction; 1 for true; no value for NaN, numbers out of range and other texts",
        "int64 -> int64 : same", "float64 -> int64 : to_int64", "boolean -> int64 : to_int64",
        "string -> int64 : to_int64"),
    row("float64", "the argument as float64; no value for a text that is not a number",
        "float64 -> float64 : same", "int64 -> float64 : to_float64", "boolean -> float64 : to_float64",
        "string -> float64 : to_float64"),
    row("string", "the argument as text, as in JSON but without quotes",
        "scalar -> string : to_string", "json -> string : to_string"),
    row("boolean", "false for 0, true for other numbers; the texts true and false",
        "boolean -> boolean : same", "int64 -> boolean : nonzero", "float64 -> boolean : nonzero",
        "string -> boolean : to_boolean"),
    row("timestamp", "the time of seconds since 1970, or of an ISO 8601 text (without zone: UTC)",
        "timestamp -> timestamp : same", "int64 -> timestamp : from_seconds", "float64 -> timestamp : from_seconds",
        "string -> timestamp : to_timestamp"),
    # times, in UTC or in a zone
    row("fromMilliseconds", "the time of so many units since 1970", "int64 -> timestamp : from_milliseconds"),
    row("fromMicroseconds", "", "int64 -> timestamp : from_microseconds"),
    row("fromNanoseconds", "", "int64 -> timestamp : from_nanoseconds"),
    row("toSeconds", "seconds since 1970", "timestamp -> float64 : to_seconds"),
    row("toMilliseconds", "whole units since 1970", "timestamp -> int64 : to_milliseconds"),
    row("toMicroseconds", "", "timestamp -> int64 : to_microseconds"),
    row("toNanoseconds", "", "timestamp -> int64 : to_nanoseconds"),
    row("year", "a part of the time: hour and minute from 0, others from 1; Monday is 1, weeks are of ISO 8601",
        "timestamp -> int64 : year", "timestamp, zone -> int64 : year"),
    row("quarter", "", "timestamp -> int64 : quarter", "timestamp, zone -> int64 : quarter"),
    row("month", "", "timestamp -> int64 : month", "timestamp, zone -> int64 : month"),
    row("day", "", "timestamp -> int64 : day", "timestamp, zone -> int64 : day"),
    row("hour", "", "timestamp -> int64 : hour", "timestamp, zone -> int64 : hour"),
    row("minute", "", "timestamp -> int64 : minute", "timestamp, zone -> int64 : minute"),
    row("dayOfWeek", "", "timestamp -> int64 : day_of_week", "timestamp, zone -> int64 : day_of_week"),
    row("dayOfYear", "", "timestamp -> int64 : day_of_year", "timestamp, zone -> int64 : day_of_year"),
    row("week", "", "timestamp -> int64 : iso_week",
        "timestamp, zone -> int64 : iso_week"),
    row("second", "whole second, 0 to 59", "timestamp -> int64 : second"),
    row("startOfDay", "the first moment of the date", "timestamp -> timestamp : start_of_day",
        "timestamp, zone -> timestamp : start_of_day"),
    row("startOf", "the first moment of the time's minute, day, week (from Monday), month and so on; an hour that "
        "occurs twice is two hours",
        "timestamp, unit -> timestamp : start_of", "timestamp, unit, zone -> timestamp : start_of"),
    row("addTime", "the time so many units later, or earlier for a negative number; days and longer units are those of "
        "the calendar, and a day that the month lacks is its last one; no value outside of 1677 to 2262",
        "timestamp, int64, unit -> timestamp : add_time", "timestamp, int64, unit, zone -> timestamp : add_time"),
    row("timeBetween", "whole units from the earlier time to the later one; negative if the second is the earlier one",
        "timestamp, timestamp, unit -> int64 : time_between",
        "timestamp, timestamp, unit, zone -> int64 : time_between"),
    row("floorTime", "the start of the time's interval; intervals of the given length count from 1970",
        "timestamp, seconds -> timestamp : floor_time"),
    row("formatTime", "the time as text, in the format of strftime; %S includes nanoseconds",
        "timestamp, strftime -> string : format_time", "timestamp, strftime, zone -> string : format_time"),
    row("parseTime", "the time of a text in a format of strptime; no value if it does not match",
        "string, format -> timestamp : parse_time", "string, format, zone -> timestamp : parse_time"),
    # values
    row("isPresent", "whether the argument is not null (NU11)", "any -> boolean : is_present", optional=never),
    row("coalesce", "the first of its arguments, two or more, that is not null (NU12)",
        "any, any -> any : first_present", optional=if_last),
    row("try", "the argument, or null if it has no value (NU14)", "any -> any : null_for_error", optional=always),
    row("hasValue", "whether the argument has a value and is not null", "any -> boolean : has_value", optional=never),
    row("orElse", "the first argument, or the second if the first has no value (NU14)",
        "any, any -> any : value_for_error"),
    row("size", "number of elements, of entries or of bytes", "list<any> -> int64 : size",
        "map<key, any> -> int64 : size", "bytes -> int64 : size"),
    row("get", "the element at a position (the first is 0, the last -1), also written xs[i], no value outside the "
        "list; the value of a key, also written m[k], null without the key",
        "list<any>, int64 -> any : element_at", "map<key, any>, key -> any? : entry"),
    row("slice", "n elements from a position (from 0), or all up to the end",
        "list<any>, int64 -> list<any> : sublist", "list<any>, int64, int64 -> list<any> : sublist"),
    row("sort", "the elements, the smallest first; a NaN is larger than all numbers",
        "list<scalar> -> list<scalar> : list_sort"),
    row("distinct", "each element once, in its first place; all NaN are one",
        "list<scalar> -> list<scalar> : list_distinct"),
    row("without", "the elements that do not equal the second argument, or one of its elements",
        "list<scalar>, scalar -> list<scalar> : list_without",
        "list<scalar>, list<scalar> -> list<scalar> : list_without_all"),
    row("common", "the elements of the first list that equal one of the second",
        "list<scalar>, list<scalar> -> list<scalar> : list_common"),
    row("concatenate", "the elements of both lists", "list<any>, list<any> -> list<any> : list_concatenate"),
    row("sumOf", "the sum of the elements; 0 for an empty list", "list<int64> -> int64 : list_sum",
        "list<float64> -> float64 : list_sum"),
    row("averageOf", "the mean of the elements; no value for an empty list", "list<int64> -> float64 : list_mean",
        "list<float64> -> float64 : list_mean"),
    row("minOf", "the smallest or largest element, a NaN being the largest; no value for an empty list",
        "list<scalar> -> scalar : list_min"),
    row("maxOf", "",
        "list<scalar> -> scalar : list_max"),
    row("keys", "the keys of a map, in their order", "map<key, any> -> list<key> : map_keys"),
    row("merge", "the entries of both maps; of two with one key that of the second",
        "map<key, any>, map<key, any> -> map<key, any> : map_merge"),
    row("splitToMap", "the map of a text such as `a=1,b=2`: entries are between the first separator, key and value "
        "around the second; a part without the second is left out, and the last of equal keys counts",
        "string, separator, separator -> map<string, string> : split_to_map"),
    row("values", "the values of a map, in the order of their keys", "map<key, any> -> list<any> : map_values"),
    row("jsonText", "the text of the member with this path, such as `a.b` or `items.0.price`: a string without its "
        "quotes, other values as JSON; null without the member, for null, and if the text is not JSON",
        "json, path -> string? : json_text", "string, path -> string? : json_text"),
    row("json", "the JSON value with this text; no value if the text is not JSON", "string -> json : to_json"),
    row("bytes", "the bytes of a base64 text; no value for other texts", "string -> bytes : to_bytes"),
    row("unhex", "the bytes of a text of hexadecimal digits; no value for other texts", "string -> bytes : from_hex"),
)}  # fmt: skip

#: functions that the engine alone calls: a sum of wide decimals is a sum of both halves
INTERNAL: Mapping[str, Function] = {f.name: f for f in (
    row("low half", "the low 64 bits, with a sign"),
    row("high half", "what the low half leaves, divided by 2 ** 64"),
)}  # fmt: skip

#: functions of earlier tuples of the same key, in the outputs of a map (PV1). The second and third are typed as the
#: expressions of `previous` for which they stand
EARLIER: Mapping[str, Function] = {f.name: f for f in (
    row("previous", "the value in the tuple before, or in the n-th before; null if there is none (PV1)",
        "any -> any", "any, steps -> any", optional=always),
    row("change", "the value minus the one in the tuple before; of two timestamps seconds (PV5)",
        "int64 -> int64", "float64 -> float64", "timestamp -> float64", optional=always),
    row("rate", "the change of the first argument by each unit of the second one, of a timestamp by each second (PV6)",
        "float64, timestamp -> float64", "float64, float64 -> float64", optional=always),
)}  # fmt: skip

#: functions of the place of a tuple in the order of a sort (RK2)
RANKS: Mapping[str, Function] = {f.name: f for f in (
    row("rank", "1, and one more for each tuple of the firing that is before it in the order; equal tuples are equal",
        "-> int64"),
    row("denseRank", "1, and one more for each different rank before it", "-> int64"),
    row("rowNumber", "the position in the order, from 1; of equal tuples the one that came first is the first",
        "-> int64"),
)}  # fmt: skip

#: aggregation functions: computed over the tuples of a group, which is never empty; counts are int64 (unlike A13)
AGGREGATES: Mapping[str, Function] = {f.name: f for f in (
    row("Count", "number of tuples in the group; with an argument, of those in which it is not null (NU19)",
        "-> int64", "any -> int64", optional=never),
    row("CountAll", "number of tuples in the partition; for sliding windows and panes, in all partitions (A18)",
        "-> int64"),
    row("CountGroups", "number of groups in the firing", "-> int64"),
    row("CountByGroup", "number of tuples of each group of the firing; without `group_by` a list with CountAll",
        "-> list<int64>"),
    row("CountDistinct", "number of distinct values; each NaN counts as a distinct value (A17)", "any -> int64",
        optional=never),
    row("CollectDistinct", "the distinct values in order of first arrival; with a cap, at most the first `cap` values",
        "any -> list<any>", "any, cap -> list<any>", optional=never),
    row("CountByDistinct", "number of occurrences of each value of CollectDistinct, in the same order",
        "any -> list<int64>", "any, cap -> list<int64>", optional=never),
    row("Collect", "all values in order of arrival; with a cap, at most the first `cap` values",
        "any -> list<any>", "any, cap -> list<any>", optional=never),
    row("First", "the value of the first or last tuple; with a cap, a list of the values of so many tuples",
        "any -> any", "any, cap -> list<any>", optional=if_alone),
    row("Last", "",
        "any -> any", "any, cap -> list<any>", optional=if_alone),
    row("FirstPresent", "the value of the first or last tuple in which it is not null (NU20)", "any -> any"),
    row("LastPresent", "", "any -> any"),
    row("Any", "the value of an arbitrary tuple, which is the last one", "any -> any"),
    row("Sum", "sum; int64 wraps around; strings are concatenated; lists are added element by element",
        "int64 -> int64", "float64 -> float64", "string -> string",
        "list<int64> -> list<int64>", "list<float64> -> list<float64>"),
    row("Average", "mean; for int64 without its fraction (A20); for lists element by element; for a decimal with the "
        "given number of digits behind the point, rounded half to even",
        "int64 -> int64", "float64 -> float64", "list<int64> -> list<int64>", "list<float64> -> list<float64>",
        cuts=True),
    row("PopulationStdDev", "standard deviation, sqrt(M2 / n)", "float64 -> float64"),
    row("SampleStdDev", "standard deviation, sqrt(M2 / (n - 1)); 0 for one tuple", "float64 -> float64"),
    row("Max", "maximum or minimum; NaN only if it is the first value (A16); for lists element by element",
        "scalar -> scalar", "list<int64> -> list<int64>", "list<float64> -> list<float64>"),
    row("Min", "",
        "scalar -> scalar", "list<int64> -> list<int64>", "list<float64> -> list<float64>"),
    row("MaxCount", "number of occurrences of the maximum or minimum", "scalar -> int64"),
    row("MinCount", "", "scalar -> int64"),
    # the second argument may be null in the tuple that the first one chooses (NU21)
    row("ArgMax", "the second argument in the first tuple with the maximum or minimum of the first argument",
        "scalar, any -> any"),
    row("ArgMin", "",
        "scalar, any -> any"),
    row("ArgMaxLast", "the same, in the last such tuple (FN9)",
        "scalar, any -> any"),
    row("ArgMinLast", "",
        "scalar, any -> any"),
    row("FirstBy", "the first argument in the tuple with the least second argument; the first of equal tuples (FN10)",
        "any, scalar -> any"),
    row("LastBy", "the first argument in the tuple with the greatest second argument; the last of equal tuples (FN10)",
        "any, scalar -> any"),
    row("CollectArgMax", "the distinct second arguments in all tuples with the maximum or minimum of the first",
        "scalar, any -> list<any>", optional=never),
    row("CollectArgMin", "",
        "scalar, any -> list<any>", optional=never),
    row("MaxN", "the n largest or smallest, in this order; a NaN is larger than all numbers, as in a sort (O4)",
        "scalar, cap -> list<scalar>", optional=never),
    row("MinN", "",
        "scalar, cap -> list<scalar>", optional=never),
    row("CollectMaxN", "the first of the n tuples with the largest or smallest second, in order; earlier of equals",
        "any, scalar, cap -> list<any>", optional=never),
    row("CollectMinN", "",
        "any, scalar, cap -> list<any>", optional=never),
    row("Median", "Percentile(v, 0.5)", "float64 -> float64"),
    row("Percentile", "the value at a share of the sorted values, interpolated linearly; NaN if one is NaN",
        "float64, share -> float64"),
    row("ApproxPercentile", "the value at position floor(share * (n - 1)), within 0.4 % (2^-8); NaN if a value is NaN",
        "float64, share -> float64"),
)}  # fmt: skip

#: functions of SQL, Python and other languages, in lower case -> the function with that meaning, for messages
OTHER_NAMES: Mapping[str, str] = {
    **dict.fromkeys(("avg", "mean"), "Average"),
    **dict.fromkeys(("total",), "Sum"),
    **dict.fromkeys(("maximum", "greatest"), "Max"),
    **dict.fromkeys(("minimum", "least"), "Min"),
    **dict.fromkeys(("n", "num", "rows"), "Count"),
    **dict.fromkeys(("count_distinct", "nunique", "approx_count_distinct", "distinct"), "CountDistinct"),
    **dict.fromkeys(("array_agg", "collect_list", "list", "group_concat", "string_agg"), "Collect"),
    **dict.fromkeys(("collect_set", "set"), "CollectDistinct"),
    **dict.fromkeys(("first_value", "earliest_by_offset"), "First"),
    **dict.fromkeys(("firstnonnull", "first_non_null"), "FirstPresent"),
    **dict.fromkeys(("lastnonnull", "last_non_null"), "LastPresent"),
    **dict.fromkeys(("prev", "shift"), "previous"),
    **dict.fromkeys(("diff", "delta", "difference"), "change"),
    **dict.fromkeys(("derivative", "irate", "per_second"), "rate"),
    **dict.fromkeys(("last_value", "latest", "latest_by_offset"), "Last"),
    **dict.fromkeys(("stddev", "std", "stdev", "stddev_samp"), "SampleStdDev"),
    **dict.fromkeys(("stddev_pop", "stddevp", "pstdev"), "PopulationStdDev"),
    **dict.fromkeys(("quantile", "percentile_cont", "percentile_approx"), "Percentile"),
    **dict.fromkeys(("max_by", "argmax"), "ArgMax"),
    **dict.fromkeys(("min_by", "argmin"), "ArgMin"),
    **dict.fromkeys(("len", "char_length"), "length"),
    **dict.fromkeys(("substr", "mid"), "substring"),
    **dict.fromkeys(("ucase", "toupper", "touppercase"), "upper"),
    **dict.fromkeys(("lcase", "tolower", "tolowercase"), "lower"),
    **dict.fromkeys(("strip", "btrim"), "trim"),
    **dict.fromkeys(("ltrim", "lstrip"), "trimStart"),
    **dict.fromkeys(("rtrim", "rstrip"), "trimEnd"),
    **dict.fromkeys(("ifnull", "nvl"), "coalesce"),
    **dict.fromkeys(("isnotnull", "notnull", "isset", "exists"), "isPresent"),
    **dict.fromkeys(("try_cast", "trycast", "safe_cast"), "try"),
    **dict.fromkeys(("int", "integer", "bigint", "long", "toint"), "int64"),
    **dict.fromkeys(("float", "double", "tofloat", "real"), "float64"),
    **dict.fromkeys(("str", "text", "varchar", "tostring", "to_string"), "string"),
    **dict.fromkeys(("bool", "tobool"), "boolean"),
    **dict.fromkeys(("datetime", "to_timestamp", "from_unixtime"), "timestamp"),
    **dict.fromkeys(("time_bucket", "timestamptrunc"), "floorTime"),
    **dict.fromkeys(("strftime", "date_format", "to_char"), "formatTime"),
    **dict.fromkeys(("strptime", "str_to_date"), "parseTime"),
    **dict.fromkeys(("power",), "pow"),
    **dict.fromkeys(("cardinality", "array_length", "count_of"), "size"),
    **dict.fromkeys(("map_keys", "object_keys"), "keys"),
    **dict.fromkeys(("map_values",), "values"),
    **dict.fromkeys(("json_value", "json_extract", "json_query", "get_json_object", "extractjsonfield"), "jsonText"),
    **dict.fromkeys(("parse_json", "to_json"), "json"),
    **dict.fromkeys(("from_base64", "unbase64"), "bytes"),
    **dict.fromkeys(("windowstart", "window_start"), "intervalStart"),
    **dict.fromkeys(("windowend", "window_end"), "intervalEnd"),
}


@dataclass(frozen=True, slots=True)
class Constant:
    """A parameter that must be a constant: its type, its description for messages, and the test of a value."""

    type: Type
    meaning: str
    fits: Callable[[Any], bool]


def within(least: int, most: int, value: int) -> bool:
    return least <= value <= most


#: names in the folder of time zones that stand for the zone of the machine
ZONES_OF_THE_MACHINE = ("localtime", "posixrules")


def is_zone(name: str) -> bool:
    """Whether this is the name of a time zone that is the same on every machine."""
    if name in ZONES_OF_THE_MACHINE:
        return False
    try:
        return bool(zoneinfo.ZoneInfo(name))
    except (KeyError, ValueError, OSError):  # not the name of a zone, a folder of zones, or an invalid path
        return False


def is_regex(pattern: str, replacement: str = "") -> bool:
    """Whether `pattern` is a regular expression, and `replacement` refers only to groups that it has."""
    import pyarrow as pa  # noqa: PLC0415 - only this check needs it
    import pyarrow.compute as pc  # noqa: PLC0415

    try:
        return bool(pc.replace_substring_regex(pa.scalar(""), pattern=pattern, replacement=replacement).is_valid)
    except pa.ArrowInvalid:
        return False


#: a format of strftime(3) with the conversions that pyarrow knows; it writes others literally, or with another meaning
STRFTIME = re.compile(r"(?:[^%]|%(?:[aAbBcCdDeFgGhHIjmMnprRStTuUVwWxXyYzZ%]|E[cCxXyYz]|O[deHImMSuUVwWyz]))+", re.DOTALL)

CONSTANTS: Mapping[str, Constant] = {
    **{
        name: Constant(INT64, f"a constant from {least} to {most}", partial(within, least, most))
        for module in FURTHER
        for name, (least, most) in module.CONSTANTS.items()
    },
    "cap": Constant(INT64, "a constant of at least 1", lambda value: value >= 1),
    "steps": Constant(INT64, "a constant from 1 to 1000", lambda value: 1 <= value <= 1000),  # noqa: PLR2004
    "share": Constant(FLOAT64, "a constant from 0 to 1", lambda value: 0 <= value <= 1),
    "path": Constant(STRING, 'a path such as "a.b" as constant', bool),
    "width": Constant(INT64, "a constant from 0 to 1000", lambda value: 0 <= value <= 1000),  # noqa: PLR2004
    "seconds": Constant(
        FLOAT64,
        "a constant from 0.000000001 to 9000000000",
        lambda value: 1e-9 <= value <= 9e9,  # noqa: PLR2004
    ),
    "unit": Constant(
        STRING,
        'a unit as constant: "second", "minute", "hour", "day", "week", "month", "quarter" or "year"',
        lambda text: text in ("second", "minute", "hour", "day", "week", "month", "quarter", "year"),
    ),
    "part": Constant(
        STRING,
        'a part as constant: "scheme", "user", "host", "port", "path", "query" or "fragment"',
        lambda text: text in ("scheme", "user", "host", "port", "path", "query", "fragment"),
    ),
    "group": Constant(INT64, "a constant from 1 to 8 that numbers a group", lambda value: value in range(1, 9)),
    "character": Constant(STRING, "a constant of one character", lambda text: len(text) == 1),
    "separator": Constant(STRING, "a constant that is not empty", bool),
    "format": Constant(STRING, 'a constant such as "%Y-%m-%d"', bool),
    "strftime": Constant(
        STRING,
        'a constant with conversions of strftime such as "%Y-%m-%d"',
        lambda text: STRFTIME.fullmatch(text) is not None,
    ),
    "regex": Constant(STRING, "a regular expression of RE2 as constant", is_regex),
    "replacement": Constant(STRING, r"a constant in which \1 to \9 are its groups, \\ a backslash", lambda _: True),
    "zone": Constant(STRING, 'a time zone such as "Europe/Berlin" as constant', is_zone),
}

#: words that stand for a type -> whether they may stand for the given one; all types without an inside have an order
#: (A15)
VARIABLES: Mapping[str, Callable[[Type], bool]] = {
    "any": lambda _: True,
    "scalar": lambda type_: type_.comparable,
    "key": lambda type_: type_.names_entries,
    **{word: fits for module in FURTHER for word, (_, fits) in module.VARIABLES.items()},
}
#: words that stand for a type -> the word in messages, if it is another one
SHOWN = {word: shown for module in FURTHER for word, (shown, _) in module.VARIABLES.items()}
#: words of VARIABLES that stand for types of several classes, so that an argument stays as it is
MIXED = {word for module in FURTHER for word in module.MIXED}

#: rule of a result -> the type for the types of the arguments that words of VARIABLES stand for, and for the values of
#: the constants behind them, which are missing where a kernel is looked up; None: there is no such type
RULES: Mapping[str, Callable[[Sequence[Type], Sequence[Any]], Type | None]] = {
    name: rule for module in FURTHER for name, rule in module.RULES.items()
}


@dataclass(frozen=True, slots=True)
class Match:
    """A signature that fits the types of given arguments, the types to convert them to, and the type of the result."""

    signature: Signature
    arguments: tuple[Type, ...]
    result: Type


def match(function: Function, types: tuple[Type, ...], values: tuple[Any, ...] = ()) -> Match | None:
    """The signature whose parameters have exactly these types, else the first that fits them; None if none fits.

    An argument of an optional type fits the parameters that its present type fits, and stays optional. `values` are the
    arguments that are constants, None for the others; they may be missing where the type of the result does not matter.
    """
    return _match(function, types, tuple(value if type(value) is int else None for value in values))


@lru_cache(maxsize=1024)
def _match(function: Function, types: tuple[Type, ...], values: tuple[int | None, ...]) -> Match | None:
    """An argument of an optional type fits the parameters that its present type fits, and stays optional."""
    if not function.nulls:
        return declared(function, types)
    present = tuple(type_.present for type_ in types)
    matches = [m for m in (fit(signature, present, values) for signature in function.signatures) if m]
    chosen = next((m for m in matches if m.arguments == present), matches[0] if matches else None)
    return None if chosen is None else with_null(function, chosen, types)


def declared(function: Function, types: tuple[Type, ...]) -> Match | None:
    """Like `match`, for a function that takes null only for parameters whose type has a `?`."""
    for signature in function.signatures:
        words = [word.removesuffix("?") for word in signature.parameters]
        fitted = fit(Signature(tuple(words), signature.result, ""), [type_.present for type_ in types], ())
        nulls = zip(signature.parameters, types, strict=False)
        if fitted and all(word.endswith("?") or not type_.optional for word, type_ in nulls):
            return with_null(function, Match(signature, fitted.arguments, fitted.result), types)
    return None


def with_null(function: Function, chosen: Match, types: Sequence[Type]) -> Match:
    """The match for these types, of which some are optional: also of aggregation functions (NU18, NU22)."""
    arguments = tuple(optional_of(to) if type_.optional else to
                      for to, type_ in zip(chosen.arguments, types, strict=True))  # fmt: skip
    result = optional_of(chosen.result) if function.optional(types) else chosen.result
    return Match(chosen.signature, arguments, result)


def fit(signature: Signature, types: Sequence[Type], values: Sequence[int | None] = ()) -> Match | None:
    if len(types) != len(signature.parameters):
        return None
    words = [parameter.removesuffix(" literal") for parameter in signature.parameters]
    bound: dict[str, Type] = {}
    for word, type_ in zip(words, types, strict=True):
        bound_type = bind(word, type_, bound)
        if bound_type is None or common(bound_type, type_) != bound_type:
            return None
    arguments = tuple(type_ if word in MIXED else named(word, bound) for word, type_ in zip(words, types, strict=True))
    if any(
        type_.element is not None and not takes(argument, type_)
        for argument, type_ in zip(arguments, types, strict=True)
    ):
        return None  # no list is converted, but its elements may be optional (NU33)
    result = _by_rule(signature, words, types, values) if signature.rule else named(signature.result, bound)
    return None if result is None else Match(signature, arguments, result)


def _by_rule(
    signature: Signature, words: Sequence[str], types: Sequence[Type], values: Sequence[int | None]
) -> Type | None:
    varying = [type_ for word, type_ in zip(words, types, strict=True) if word in VARIABLES]
    digits = [value for word, value in zip(signature.parameters, values, strict=False)
              if word in CONSTANTS or word.endswith(" literal")]  # fmt: skip
    if None in digits:  # an argument that must be a constant is none, which is a fault of its own
        digits = []
    return RULES[signature.rule](varying, digits)


def bind(word: str, argument: Type, bound: dict[str, Type]) -> Type | None:
    """The type of the parameter `word` for an argument of type `argument`; None if it does not fit.

    If `word` stands for a type, the type is stored in `bound`.
    """
    if word.startswith("list<"):
        element = bind(word[5:-1], argument.element, bound) if argument.element else None
        return list_of(element) if element else None
    if word.startswith("map<"):
        inner = argument.parts if isinstance(argument, MapType) else ()
        parts = [bind(part, type_, bound) for part, type_ in zip(top_level(word[4:-1]), inner, strict=False)]
        return map_of(*filter(None, parts)) if parts and all(parts) else None
    if word not in VARIABLES:
        return named(word, bound)
    if not VARIABLES[word](argument):
        return None
    joined = common(bound.get(word, argument), argument)
    if joined:
        bound[word] = joined
    return joined


def common(first: Type, second: Type) -> Type | None:
    """The type that holds the values of both types; None if there is none."""
    return first if first == second else first.joined(second) or second.joined(first) or united(first, second)


def named(word: str, bound: Mapping[str, Type]) -> Type:
    if word in CONSTANTS:
        return CONSTANTS[word].type
    if word.endswith("?"):
        return optional_of(named(word[:-1], bound))
    if word.startswith("list<"):
        return list_of(named(word[5:-1], bound))
    if word.startswith("map<"):
        return map_of(*(named(part, bound) for part in top_level(word[4:-1])))
    return bound[word] if word in bound else parse_type(word)
