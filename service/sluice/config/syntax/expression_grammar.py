"""The grammar of expressions, and the syntax tree of a text."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput

from sluice.config.syntax.syntax_faults import syntax_fault
from sluice.model.errors import Fault

GRAMMAR = r"""
?choice: either | either "?" choice ":" choice        -> conditional
?either: both | either _OR both                       -> either
?both: not | both _AND not                            -> both
?not: comparison | _NOT not                           -> negation
?comparison: elvis | elvis COMPARISON elvis           -> binary
?elvis: sum | sum _ELVIS elvis                        -> elvis
?sum: product | sum SIGN product                      -> binary
?product: signed | product (TIMES) signed             -> binary
?signed: part | SIGN signed                           -> signed
?part: atom | part "[" choice "]"                     -> element
     | part "." MEMBER                                -> member
     | part _PRESENT                                  -> unwrapped
?atom: INTEGER                                        -> integer
     | FLOAT                                          -> float
     | DURATION                                       -> duration
     | TEXT                                           -> text
     | TRUE                                           -> true
     | FALSE                                          -> false
     | NULL                                           -> null
     | NAME                                           -> name
     | NAME "(" [_argument ("," _argument)*] ")"      -> call
     | "(" choice ")"
     | "{" field ("," field)* "}"                     -> struct
     | "{" entry ("," entry)* "}"                     -> map
     | "[" choice ("," choice)* "]"                   -> list
_argument: choice | where
where: _WHERE choice
field: MEMBER ":" choice
entry: TEXT ":" choice

COMPARISON: "==" | "!=" | "<=" | ">=" | "<" | ">"
SIGN: "+" | "-"
TIMES: "*" | "/" | "%"
_AND: "&&" | /and\b/
_OR: "||" | /or\b/
_NOT: /!(?!=)/ | /not\b/
TRUE: /true\b/
FALSE: /false\b/
NULL: /null\b/
_PRESENT: /!(?!=)/
_ELVIS: "?:"
_WHERE.1: /where\s*:/
INTEGER: /\d+(?![\w.])/
FLOAT: /(\d+\.\d*|\.\d+)([eE][-+]?\d+)?(?!\w)|\d+[eE][-+]?\d+(?!\w)/
DURATION: /(\d+(\.\d+)?|\.\d+)(ms|s|m|h|d)(?!\w)/
TEXT: /"([^"\\\n]|\\.)*"|'([^'\\\n]|\\.)*'/
NAME: /(?!(and|or|not|true|false|null)\b)[^\W\d]\w*/
MEMBER: /[^\W\d]\w*/
%ignore /\s+/
"""

RESERVED = ("and", "or", "not", "true", "false", "null")


class ExpressionError(ValueError):
    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(f"expected {f.expected}, got {f.got}" for f in self.faults))


def check_syntax(text: str) -> None:
    """Checks the syntax of an expression whose scope is unknown. Raises ExpressionError."""
    parse_tree(text)


@cache
def parser() -> Lark:
    return Lark(GRAMMAR, start="choice", parser="lalr", propagate_positions=True)


def parse_tree(text: str) -> Tree[Token]:
    try:
        return parser().parse(text)
    except UnexpectedInput as error:
        raise ExpressionError([syntax_fault(error, text)]) from None
