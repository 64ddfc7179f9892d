"""Describes for messages why a text is not an expression: what was expected at which position, and what to write."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from sluice.config.syntax.durations import spelled_here
from sluice.config.syntax.other_systems import WORDS, small_word, word_of_sql
from sluice.model.errors import Fault, nearest, one_of
from sluice.model.functions import FUNCTIONS, OTHER_NAMES

#: for a sign that gives a value in place of a missing one
ABSENT = "x ?: y, which is y where x is null"
#: what other languages write, at the position of the error: the number of characters before that position at which it
#: begins, what was expected, and what to write
SIGNS_ELSEWHERE: tuple[tuple[re.Pattern[str], int, str, str | None], ...] = (
    (re.compile("==="), 2, "an operator", "=="),
    (re.compile(r"\?\?"), 1, ABSENT, "?:"),
    (re.compile(r"\?\."), 1, "a point alone: the member of a null struct is null", "."),
    (re.compile(r"\*\*"), 1, "pow(x, y), in place of a sign for powers", None),
    (re.compile(r"\^"), 0, "pow(x, y), in place of a sign for powers, or bitXor(x, y)", None),
    (re.compile("//"), 1, "floor(x / y), in place of //; a quotient of two int64 has no fraction", None),
    (re.compile("<<|>>"), 1, "x * 2 or x / 2, as no sign shifts bits", None),
    (re.compile("~"), 0, "bitXor(x, -1), in place of ~", None),
    (re.compile(r"->|=>"), 1, "an expression over the tuple: there are no functions of its own", None),
    (re.compile(r"=>"), 0, "an expression over the tuple: there are no functions of its own", None),
    (re.compile(r"@\w*"), 0, "the name of an attribute alone", None),
    (re.compile(r"\{[^{}]*\}?"), 0, "the name of an attribute alone, without braces", None),
    (re.compile(r"\["), 0, "an attribute, or a function that gives a list such as split: no list is written out", None),
    (re.compile(r":(?=[^\[\]]*\])"), 0, "substring(x, first, length), in place of a slice", None),
    (re.compile(r"\d+(_\d+)+"), 0, "a number without underscores", None),
    (re.compile(r"0[xob]\w+", re.IGNORECASE), 0, "a decimal number", None),
    (re.compile("<>"), 1, "an operator", "!="),
    (re.compile("::"), 0, "a function that converts, such as int64(x), in place of ::", None),
    (re.compile(r"interval '?\d+'?( [a-z]+)?", re.IGNORECASE), 9, "a duration such as 5m, in place of INTERVAL", None),
    (re.compile(r"distinct [a-z_]\w*", re.IGNORECASE), 9, WORDS["distinct"], None),
    (re.compile(r"(?<=\()\*(?=\s*\))"), 0, "nothing between the parentheses, as in Count()", None),
    (re.compile(r"\*(?=\s*\Z)"), 0, "attributes by name; output as a list, [stream], writes all of the input", None),
)
#: the beginning of a call of a method
METHOD = re.compile(r"([^\W\d]\w*)\.([^\W\d]\w*)\s*\($")
#: a name in braces, as templates have it
TEMPLATE = re.compile(r"\{\s*([^\W\d]\w*)\s*\}$")
#: an argument with a name
NAMED = re.compile(r"[(,]\s*([^\W\d]\w*)\s*:$")
#: signs of other languages -> the sign of this grammar
SIGNS = {"=": "==", "&": "&&", "|": "||"}
#: a character that begins no part of an expression -> what was expected
CHARACTERS = {
    **dict.fromkeys("\"'", "a text with a closing quote"),
    **dict.fromkeys("\u201c\u201d\u201e\u2018\u2019", "a text in straight quotes, \" or '"),
    "`": "a name without backticks",
    ";": "an expression without a semicolon",
    "$": "the name of an attribute alone",
}
#: an expected terminal -> the name that a message gives it
TERMINALS = {"NAME": "a value", "RPAR": '")"', "COMMA": '","', "RSQB": '"]"', "COLON": '":"', "SIGN": "an operator"}


def syntax_fault(error: UnexpectedInput, text: str) -> Fault:
    """The fault of a text in which the parser has found this error."""
    start, ended = error.pos_in_stream or 0, isinstance(error, UnexpectedToken) and error.token.type == "$END"
    if not ended and (fault := sign_elsewhere(text, start)):
        return fault
    if isinstance(error, UnexpectedCharacters):
        expected = CHARACTERS.get(error.char, "an expression")
        return Fault(expected, text[start:].split(maxsplit=1)[0], SIGNS.get(error.char), start + 1)
    assert isinstance(error, UnexpectedToken)  # noqa: S101 - an LALR parser raises only these two kinds
    expected = expected_text(error.accepts or error.expected)
    if error.token.type == "COMPARISON" and expected in ("an operator", "the end of the expression"):
        expected = "one comparison, or two joined by and (1 < x and x < 3)"
    if ended:
        return Fault(f"{expected} at the end" if text.strip() else "an expression", text.strip() or None)
    if fault := fault_that_ends_here(text[: start + 1]):
        return fault
    word = str(error.token)
    return Fault(word_of_sql(word) or expected, word, small_word(word), start + 1)


def fault_that_ends_here(text: str) -> Fault | None:
    """The fault of what other languages write at the end of this text; None if it is not known."""
    if method := METHOD.search(text):
        return method_fault(method)
    if braces := TEMPLATE.search(text):
        return Fault("the name of an attribute alone, without braces", braces[0], braces[1], braces.start() + 1)
    if named := NAMED.search(text):
        expected, hint = "an argument without a name, or a condition behind where:", nearest(named[1], ("where",))
        return Fault(expected, f"{named[1]}:", hint and f"{hint}:", named.start(1) + 1)
    return None


def sign_elsewhere(text: str, start: int) -> Fault | None:
    """The fault of a sign of another language at this position; None if it is not known."""
    for pattern, before, expected, hint in SIGNS_ELSEWHERE:
        if start >= before and (match := pattern.match(text, start - before)):
            return Fault(expected, match[0], hint or spelled_here(match[0]), match.start() + 1)
    return None


def method_fault(match: re.Match[str]) -> Fault:
    """The fault of a call of a method, as in `symbol.lower()`: values have no methods."""
    value, method = match.groups()
    name = method if method in FUNCTIONS else OTHER_NAMES.get(method.lower()) or nearest(method, FUNCTIONS)
    instead = f"{value} == ..." if method.lower() == "equals" else f"{name or 'function'}({value})"
    expected = f"a function or an operator, as in {instead}, as values have no methods"
    return Fault(expected, f"{value}.{method}", None, match.start() + 1)


def expected_text(terminals: Iterable[str]) -> str:
    """The text for messages about the terminals that the parser expected."""
    names = [name for terminal, name in TERMINALS.items() if terminal in set(terminals)]
    if "a value" in names:
        return "a value"
    return one_of(names) if names else "the end of the expression"
