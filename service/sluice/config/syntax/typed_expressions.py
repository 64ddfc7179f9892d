"""Parses the text of an expression: the result is a typed Expression, or all faults of the text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from lark import Token, Tree

from sluice.api import custom
from sluice.api.class_loader import ClassError, versioned
from sluice.config.syntax.durations import seconds
from sluice.config.syntax.expression_grammar import ExpressionError, parse_tree
from sluice.config.syntax.function_names import function_elsewhere
from sluice.config.syntax.object_attributes import of_attributes, of_objects, of_side
from sluice.config.syntax.other_systems import small_word, word_of_sql
from sluice.config.syntax.signature_match import call, constants_fit, converted, signatures, wrong_constant
from sluice.model.errors import MAX_FINDINGS, Fault, nearest, one_of
from sluice.model.expressions import PREVIOUS, AggregateCall, Attribute, Call, Expression, Literal
from sluice.model.functions import (
    AGGREGATES,
    EARLIER,
    FUNCTIONS,
    OPERATORS,
    OTHER_NAMES,
    RANKS,
    Function,
    Match,
    common,
    match,
)
from sluice.model.types import (
    BOOLEAN,
    FLOAT64,
    INT64,
    JSON,
    STRING,
    TIMESTAMP,
    ListType,
    MapType,
    StructType,
    Type,
    optional_of,
)
from sluice.model.windows.kinds import SIGNATURES, WINDOW_FUNCTIONS, kinds_with

LIMIT = 2**63
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
#: the beginning of what is expected in place of an unknown name
#: the least similarity of the name of a function that a message suggests: short names resemble each other by chance
OF_A_FUNCTION = 0.75
NO_ATTRIBUTE = "an attribute of "
#: maximum length of the digits of an integer; an int64 has 19, but may begin with zeros
MAX_DIGITS = 1000
#: functions of strings and of lists with the same meaning
SAME_MEANING = {"length": "size", "size": "length"}
#: name of a scalar function in small letters -> the name
OF_OTHER_CASE = {name.lower(): name for name in FUNCTIONS if name.capitalize() not in AGGREGATES}
#: functions of which an argument may be the constant null
BESIDE_NULL = ("coalesce", "orElse")
#: maximum depth of a nested expression, because functions walk through expressions by recursion
DEEPEST = 150


@dataclass(frozen=True, slots=True)
class Scope:
    """The names that an expression may use."""

    #: the stream of the attributes, for messages
    stream: str
    attributes: Mapping[str, Type]
    #: None if aggregate functions may be called; else the end of the message that forbids them, such as "in a map"
    no_aggregates: str | None = None
    #: in a join: the attributes of each side, in place of `attributes`
    sides: Mapping[str, Mapping[str, Type]] = field(default_factory=dict)
    #: in a join: the name of each stream -> its side, for messages
    streams: Mapping[str, str] = field(default_factory=dict)
    #: the functions that describe the window that fires, and the types of their results
    panes: Mapping[str, Type] = field(default_factory=dict)
    #: None if functions of earlier tuples may be called; else the end of the message that forbids them
    no_earlier: str | None = "in the output of a map alone"
    #: whether the place of a tuple in the order of a sort is known
    ranks: bool = False


def parse(text: str, scope: Scope) -> Expression:
    """The typed expression of a text. Raises ExpressionError with all faults."""
    typing = Typing(text, scope)
    expression = typing.of(parse_tree(text))
    if typing.faults or expression is None:
        raise ExpressionError(typing.faults)
    return expression


@dataclass(slots=True)
class Typing:
    """Types the parts of a syntax tree. For a wrong part it adds a fault; this part and all around it become None."""

    text: str
    scope: Scope
    faults: list[Fault] = field(default_factory=list)
    #: the class of exact types (`Type.exact`) of which numbers are read, with the digits that they have; None: none
    exact: type[Type] | None = None
    #: name of the aggregate function whose arguments are being typed; None outside of one
    snapshot: str | None = None
    #: name of the function of earlier tuples whose arguments are being typed; None outside of one
    looks_back: str | None = None
    depth: int = 0

    def of(self, tree: Tree[Token] | Token) -> Expression | None:
        assert isinstance(tree, Tree)  # noqa: S101 - the grammar makes a tree of every token
        if self.depth == DEEPEST:
            raise ExpressionError([Fault("an expression that is less deeply nested", f"{self.text[:40]} ...")])
        handler = getattr(self, f"of_{tree.data}")
        self.depth += 1
        expression: Expression | None = handler(tree, *tree.children)
        self.depth -= 1
        return expression

    # -- leaves --

    def of_integer(self, tree: Tree[Token], digits: Token) -> Expression | None:
        return self.number(digits) if self.exact is not None else self.integer(tree, digits)

    def integer(self, tree: Tree[Token], digits: str) -> Expression | None:
        # Python's int() refuses texts with more digits.
        if len(digits) < MAX_DIGITS and -LIMIT <= (value := int(digits)) < LIMIT:
            return Literal(value, INT64)
        return self.fault(tree, f"an int64, from {-LIMIT} to {LIMIT - 1}")

    def of_float(self, tree: Tree[Token], digits: Token) -> Expression | None:
        return self.number(digits)

    def number(self, digits: str) -> Expression | None:
        """A float64, or beside an exact number the exact number that has the same digits (DE9)."""
        if self.exact is None:
            return Literal(float(digits), FLOAT64)
        text = spelled(digits)
        type_ = self.exact.of_digits(text)
        return None if type_ is None else Literal(text, type_)

    def of_duration(self, tree: Tree[Token], text: Token) -> Expression:
        """A number with a unit: float64 seconds."""
        return Literal(float(seconds(text) or 0), FLOAT64)

    def of_text(self, tree: Tree[Token], quoted: Token) -> Expression | None:
        try:
            text = paired(ESCAPE.sub(unescaped, quoted[1:-1]))
        except KeyError:
            return self.fault(tree, r"a text with the escapes \n, \t, \r, \\, \", \' and \u00e9")
        except UnicodeError:
            return self.fault(tree, r"a text in which \ud800 to \udfff stand in pairs, as \ud83d\ude42 does")
        return Literal(text, STRING)

    def of_true(self, tree: Tree[Token], word: Token) -> Expression:
        return Literal(value=True, type=BOOLEAN)

    def of_false(self, tree: Tree[Token], word: Token) -> Expression:
        return Literal(value=False, type=BOOLEAN)

    def of_null(self, tree: Tree[Token], word: Token) -> Expression | None:
        """`null` where nothing gives it a type. `beside_null` types it elsewhere."""
        where = "as a branch of ? : or an argument of coalesce(), where the other one has a type (rule NU16)"
        return self.fault(tree, f"null {where}")

    def of_name(self, tree: Tree[Token], name: Token) -> Expression | None:
        if kind := self.scope.attributes.get(name):
            return Attribute(str(name), kind)
        if self.scope.sides:
            return self.of_one_side(tree, str(name))
        if (inner := of_objects(self.scope.attributes, str(name))) is not None:
            return inner
        return self.no_attribute(tree, name, self.scope.stream, self.scope.attributes)

    def of_one_side(self, tree: Tree[Token], name: str) -> Expression | None:
        """In a join: an attribute without its side. Exactly one side must have an attribute of this name."""
        having = {
            side: value
            for side, attributes in self.scope.sides.items()
            if (value := of_side(attributes, name, side)) is not None
        }
        if len(having) > 1:
            return self.fault(tree, f"{one_of(f'{side}.{name}' for side in having)}, as both sides have {name}")
        for value in having.values():
            return value
        every = [f"{side}.{attribute}" for side, attributes in self.scope.sides.items() for attribute in attributes]
        hint = nearest(name, [attribute.partition(".")[2] for attribute in every])
        return self.fault(tree, f"an attribute of either side ({', '.join(every)})", hint)

    def of_member(self, tree: Tree[Token], base: Tree[Token], member: Token) -> Expression | None:
        """A dotted name: an attribute with its side in a join (`left.price`), or with its stream as in SPL
        (`Trades.price`); else the member of a struct (ST8).
        """
        name = str(base.children[0]) if base.data == "name" else ""
        if attributes := self.scope.sides.get(name):
            return of_side(attributes, str(member), name) or self.no_attribute(tree, member, name, attributes)
        if name == self.scope.stream and (attribute := of_side(self.scope.attributes, str(member))) is not None:
            return attribute
        if name and not self.is_attribute(name):
            return self.of_unknown(tree, name, str(member))
        value = self.of(base)
        return None if value is None else self.member(tree, base, value, str(member))

    def is_attribute(self, name: str) -> bool:
        return any(
            of_side(attributes, name) is not None for attributes in (self.scope.attributes, *self.scope.sides.values())
        )

    def of_unknown(self, tree: Tree[Token], stream: str, name: str) -> Expression | None:
        """Reports a dotted name whose first part is no side, no stream and no attribute."""
        if stream == self.scope.stream:
            return self.no_attribute(tree, name, stream, self.scope.attributes)
        having = [side for side, attributes in self.scope.sides.items() if name in attributes]
        qualifiers = having or [*self.scope.sides] or [self.scope.stream]
        if not self.scope.sides and name not in self.scope.attributes:
            return self.no_attribute(tree, f"{stream}.{name}", self.scope.stream, self.scope.attributes)
        expected = f"an attribute of {one_of([*self.scope.sides] or qualifiers)}"
        called = {word: side for word, side in self.scope.streams.items() if side in qualifiers} | {
            s: s for s in qualifiers
        }
        meant = nearest(stream, called)
        return self.fault(tree, expected, f"{called[meant] if meant else qualifiers[0]}.{name}")

    def member(self, tree: Tree[Token], base: Tree[Token], value: Expression, name: str) -> Expression | None:
        kind, written = value.type.present, self.text[base.meta.start_pos : base.meta.end_pos]
        if not isinstance(kind, StructType):
            return self.no_members(tree, value, written, name)
        members = dict(kind.members)
        if name not in members:
            near = nearest(name, members)
            return self.fault(tree, f"a member of {written} ({', '.join(members)})", near and f"{written}.{near}")
        if isinstance(value, Call) and of_attributes(value):
            return dict(zip(members, value.arguments[1::2], strict=True))[name]
        type_ = optional_of(members[name]) if value.type.optional else members[name]
        return Call(".", (value, Literal(name, STRING)), type_)

    def no_members(self, tree: Tree[Token], value: Expression, written: str, name: str) -> Expression | None:
        """Reports a member of a value that is no struct, with what the value has in its place."""
        kind, instead = value.type.present, f", as {value.type.described} has no members"
        if isinstance(kind, MapType):
            return self.fault(tree, f"a key in brackets{instead}", f'{written}["{name}"]')
        if kind == JSON:
            return self.fault(tree, f"jsonText(){instead}", f'jsonText({written}, "{name}")')
        if kind.element is not None:
            return self.fault(tree, f"a position in brackets{instead}", f"{written}[0].{name}")
        return self.fault(tree, f"the value alone{instead}", written)

    # -- values with an inside --

    def of_struct(self, tree: Tree[Token], *fields: Tree[Token]) -> Expression | None:
        """`{id: id, name: name}` (ST10)."""
        names = [str(field.children[0]) for field in fields]
        values = [self.of(field.children[1]) for field in fields]
        if len(set(names)) < len(names):
            return self.fault(tree, "members of different names")
        typed = [value for value in values if value is not None]
        if len(typed) < len(values):
            return None
        members = tuple((name, value.type) for name, value in zip(names, typed, strict=True))
        arguments = [part for name, value in zip(names, typed, strict=True) for part in (Literal(name, STRING), value)]
        return Call("{}", tuple(arguments), StructType(members))

    def of_map(self, tree: Tree[Token], *entries: Tree[Token]) -> Expression | None:
        names = [self.of_text(entry, entry.children[0]) for entry in entries]  # type: ignore[arg-type]
        values = self.alike(tree, [entry.children[1] for entry in entries])  # type: ignore[misc]
        if values is None or None in names:
            return None
        arguments = [part for pair in zip(names, values, strict=True) for part in pair if part is not None]
        return Call("{:}", tuple(arguments), MapType(STRING, values[0].type))

    def of_list(self, tree: Tree[Token], *elements: Tree[Token]) -> Expression | None:
        values = self.alike(tree, elements)
        return None if values is None else Call("[]", tuple(values), ListType(values[0].type))

    def alike(self, tree: Tree[Token], sides: Sequence[Tree[Token]]) -> list[Expression] | None:
        """The expressions of `sides`, converted to one type; None if one has a fault, or if no type fits all."""
        typed = [value for value in map(self.of, sides) if value is not None]
        if len(typed) < len(sides):
            return None
        kind: Type | None = typed[0].type.present
        for value in typed:
            kind = None if kind is None else common(kind, value.type.present)
        if kind is None:
            self.fault(tree, f"values of one type, not {', '.join(str(value.type) for value in typed)}")
            return None
        optional = any(value.type.optional for value in typed)
        converted_values = [converted(value, optional_of(kind) if value.type.optional else kind) for value in typed]
        return (
            [replace(converted_values[0], type=optional_of(kind)), *converted_values[1:]]
            if optional
            else converted_values
        )

    def no_attribute(
        self, tree: Tree[Token], name: str, stream: str, attributes: Mapping[str, Type]
    ) -> Expression | None:
        listed = ", ".join(attributes) or "it has none"
        pane = OTHER_NAMES.get(name.lower(), name)
        called = name in AGGREGATES or name in FUNCTIONS or pane in self.scope.panes
        hint = (
            f"{pane if pane in self.scope.panes else name}()"
            if called
            else nearest(name, attributes) or small_word(name)
        )
        instead = None if hint else word_of_sql(name, name=True)
        return self.fault(tree, instead or f"{NO_ATTRIBUTE}{stream} ({listed})", hint)

    # -- operators --

    def of_conditional(self, tree: Tree[Token], *parts: Tree[Token]) -> Expression | None:
        return self.operator(tree, "if", *parts)

    def of_elvis(self, tree: Tree[Token], *sides: Tree[Token]) -> Expression | None:
        return self.operator(tree, "?:", *sides)

    def of_unwrapped(self, tree: Tree[Token], side: Tree[Token]) -> Expression | None:
        return self.operator(tree, "!", side)

    def of_either(self, tree: Tree[Token], *sides: Tree[Token]) -> Expression | None:
        return self.operator(tree, "or", *sides)

    def of_both(self, tree: Tree[Token], *sides: Tree[Token]) -> Expression | None:
        return self.operator(tree, "and", *sides)

    def of_negation(self, tree: Tree[Token], side: Tree[Token]) -> Expression | None:
        return self.operator(tree, "not", side)

    def of_binary(self, tree: Tree[Token], left: Tree[Token], sign: Token, right: Tree[Token]) -> Expression | None:
        return self.operator(tree, str(sign), left, right)

    def of_signed(self, tree: Tree[Token], sign: Token, side: Tree[Token]) -> Expression | None:
        if side.data == "float" or (side.data == "integer" and self.exact):
            return self.number(f"{sign}{side.children[0]}")
        if side.data == "integer":
            return self.integer(tree, f"{sign}{side.children[0]}")
        if sign == "-":
            return self.operator(tree, "-", side)
        value = self.of(side)
        return value if value is None or value.type.numeric else self.fault(tree, "a number")

    def operator(self, tree: Tree[Token], sign: str, *sides: Tree[Token]) -> Expression | None:
        if sign in COMPARISONS and any(map(is_null, sides)):
            return self.compared_with_null(tree, sign, sides)
        typed = 1 if sign == "if" else 0 if sign == "?:" else len(sides)
        values = [*map(self.of, sides[:typed]), *self.beside_null(sides[typed:])]
        self.perhaps_texts(tree, sides, values)
        if sign == "or" and all(value is not None and value.type.present == STRING for value in values):
            return self.fault(tree, "two booleans on the sides of or; + joins texts")
        values = self.with_digits(OPERATORS[sign], sides, values)
        return self.apply(tree, OPERATORS[sign], values, Call, self.with_conversion(tree, sign, sides, values))

    def beside_null(self, sides: Sequence[Tree[Token]]) -> list[Expression | None]:
        """The typed sides. The constant null has the type of a side that is not null (NU16)."""
        if all(map(is_null, sides)):
            return [self.of(side) for side in sides]
        values = [None if is_null(side) else self.of(side) for side in sides]
        types = [value.type for value in values if value is not None]
        null = Literal(None, optional_of(types[-1])) if types else None
        return [null if is_null(side) else value for side, value in zip(sides, values, strict=True)]

    def compared_with_null(self, tree: Tree[Token], sign: str, sides: Sequence[Tree[Token]]) -> Expression | None:
        """Reports `x == null`, which is always null."""
        side = next((side for side in sides if not is_null(side)), sides[0])
        written = f"isPresent({self.text[side.meta.start_pos : side.meta.end_pos]})"
        correct = f"not {written}" if sign == "==" else written
        return self.fault(tree, f"{correct}, as a comparison with null is null (rule NU16)", correct)

    def with_digits(
        self, function: Function, sides: Sequence[Tree[Token]], values: list[Expression | None]
    ) -> list[Expression | None]:
        """The values with exact numbers in place of the constant numbers beside an exact number, if the function
        accepts them: of all numbers, else of those with a point (DE9).
        """
        types = [value.type.present for value in values if value is not None]
        type_ = next((type(inner) for kind in types if (inner := kind.element or kind).exact), None)
        if type_ is None:
            return values
        for kinds in ((INT64, FLOAT64), (FLOAT64,)):
            exact = [self.as_exact(type_, side, value, kinds) for side, value in zip(sides, values, strict=True)]
            typed = [value for value in exact if value is not None]
            if len(typed) == len(exact) and matching(function, typed) is not None:
                return exact
        return values

    def as_exact(
        self, type_: type[Type], side: Tree[Token], value: Expression | None, kinds: tuple[Type, ...]
    ) -> Expression | None:
        """The value of a constant with exactly the digits that it has; other values as they are."""
        if value is None or value.type not in kinds or not is_constant(side):
            return value
        faults, before = list(self.faults), self.exact
        self.exact = type_
        exact_value = self.of(side)
        self.exact, self.faults[:] = before, faults
        return exact_value or value

    def with_conversion(
        self, tree: Tree[Token], sign: str, sides: Sequence[Tree[Token]], values: Sequence[Expression | None]
    ) -> str | None:
        """The text with the conversion that makes it right: of a value that is added to a string, of a string that is
        compared with a timestamp, or of an exact number beside a float64; None for others.
        """
        types = [value.type.present for value in values if value is not None]
        if len(types) < len(sides) or not all(kind.comparable for kind in types):
            return None
        if sign == "+" and types.count(STRING) == 1:
            word, side = "string", sides[1 - types.index(STRING)]
        elif sign in COMPARISONS and STRING in types and TIMESTAMP in types:
            word, side = "timestamp", sides[types.index(STRING)]
        elif FLOAT64 in types and any(kind.exact for kind in types):
            word, side = "float64", next(side for side, kind in zip(sides, types, strict=True) if kind.exact)
        else:
            return None
        start, end = side.meta.start_pos, side.meta.end_pos
        written = f"{self.text[:start]}{word}({self.text[start:end]}){self.text[end : tree.meta.end_pos]}"
        return written[tree.meta.start_pos :]

    def of_element(self, tree: Tree[Token], values: Tree[Token], position: Tree[Token]) -> Expression | None:
        value = self.of(values)
        if value is not None and isinstance(value.type.present, StructType) and position.data == "text":
            return self.member(tree, values, value, str(position.children[0])[1:-1])
        return self.apply(tree, FUNCTIONS["get"], [value, self.of(position)], Call)

    # -- calls --

    def of_call(self, tree: Tree[Token], name: Token, *arguments: Tree[Token] | None) -> Expression | None:
        present = [argument for argument in arguments if argument is not None]
        if name == "Custom":
            return self.custom(tree, present)
        for condition in present if name not in AGGREGATES else ():
            if condition.data == "where" and any(name in table for table, _ in self.tables()):
                return self.fault(condition, f"where: in aggregation functions alone, not in {name}() (rule FN1)")
        for table, typed in self.tables():
            if name in table:
                return typed(tree, table[name], present)
        for argument in present:
            self.of(argument)
        return self.no_function(tree, name, len(present))

    def tables(self) -> Iterator[tuple[Mapping[str, Function], Callable[..., Expression | None]]]:
        """The tables of functions, each with the method that types a call of one of them."""
        yield AGGREGATES, self.aggregate
        yield FUNCTIONS, self.function
        yield SIGNATURES, self.pane
        yield EARLIER, self.earlier
        yield RANKS, self.rank

    def of_where(self, tree: Tree[Token], condition: Tree[Token]) -> Expression | None:
        """The condition in the call of an aggregation function (FN1)."""
        value = self.of(condition)
        if value is not None and value.type.present != BOOLEAN:
            return self.fault(condition, f"a boolean after where:, not {value.type} (rule FN1)")
        return value

    def no_function(self, tree: Tree[Token], name: Token, count: int) -> Expression | None:
        """Reports a call of an unknown name with `count` arguments."""
        other = small_word(name) or OTHER_NAMES.get(name.lower()) or OF_OTHER_CASE.get(name.lower())
        misplaced = self.misplaced(other) if other in EARLIER else None
        if instead := word_of_sql(name) or (misplaced and f"{misplaced} (rule PV3)"):
            return self.fault(tree, instead, got=str(name))
        if other is None and (instead := function_elsewhere(name)):
            return self.fault(tree, instead, got=str(name))
        if other is not None and other in SIGNATURES and other not in self.scope.panes:
            return self.pane(tree, SIGNATURES[other], [])
        if other in ("Max", "Min") and count > 1:  # Min and Max have one argument, min and max have two
            other = other.lower()
        if other in AGGREGATES or (other is None and name.capitalize() in AGGREGATES):
            if self.snapshot:
                return self.fault(tree, f"no aggregate function inside of {self.snapshot}()", got=str(name))
            if self.scope.no_aggregates:
                return self.fault(tree, f"no aggregate function {self.scope.no_aggregates}", got=str(name))
        functions: list[str] = [
            *FUNCTIONS,
            *([] if self.scope.no_earlier else EARLIER),
            *(RANKS if self.scope.ranks else []),
        ]
        if self.scope.no_aggregates is None and not self.snapshot:
            functions = [*functions, *AGGREGATES, "Custom"] if count > 1 else [*AGGREGATES, *functions, "Custom"]
        hint = (
            other
            if other in {*functions, *self.scope.panes, "and", "or", "not"}
            else nearest(name, functions, OF_A_FUNCTION)
        )
        return self.fault(tree, "a function", hint, str(name))

    def function(self, tree: Tree[Token], function: Function, arguments: list[Tree[Token]]) -> Expression | None:
        name = function.name
        values = self.beside_null(arguments) if name in BESIDE_NULL else [self.of(argument) for argument in arguments]
        self.perhaps_texts(tree, arguments, values)
        if len(arguments) == 1 and name.capitalize() in AGGREGATES and self.scope.no_aggregates is None:
            hint = f"{name.capitalize()}{self.text[tree.meta.start_pos + len(name) : tree.meta.end_pos]}"
            return self.fault(tree, f"two arguments in {name}(), which compares values of one tuple", hint)
        values = self.with_digits(function, arguments, values)
        floats = self.with_float64(tree, function, arguments, values)
        return self.apply(tree, function, self.in_pairs(tree, function, values), Call, floats)

    def in_pairs(
        self, tree: Tree[Token], function: Function, values: list[Expression | None]
    ) -> list[Expression | None]:
        """The two arguments of coalesce(x, y, ...): of y and more arguments, the second one is their coalesce()."""
        while function.name == "coalesce" and len(values) > 2:  # noqa: PLR2004
            *values, left, right = values
            values = [*values, self.apply(tree, function, [left, right], Call)]
        return values

    def with_float64(
        self, tree: Tree[Token], function: Function, sides: Sequence[Tree[Token]], values: Sequence[Expression | None]
    ) -> str | None:
        """The call with its exact numbers as float64, for a function that has only float64; None for others."""
        types = tuple(value.type.present for value in values if value is not None)
        places = [place for place, kind in enumerate(types) if kind.exact]
        as_floats = tuple(FLOAT64 if place in places else kind for place, kind in enumerate(types))
        if len(types) < len(sides) or match(function, types) is not None or match(function, as_floats) is None:
            return None
        text = self.text[: tree.meta.end_pos]
        for place in reversed(places):
            start, end = sides[place].meta.start_pos, sides[place].meta.end_pos
            text = f"{text[:start]}float64({text[start:end]}){text[end:]}"
        return text[tree.meta.start_pos :]

    def aggregate(self, tree: Tree[Token], function: Function, trees: list[Tree[Token]]) -> Expression | None:
        if self.scope.no_aggregates:
            return self.fault(tree, f"no aggregate function {self.scope.no_aggregates}")
        if self.snapshot:
            return self.fault(tree, f"no aggregate function inside of {self.snapshot}()")
        conditions = [argument for argument in trees if argument.data == "where"]
        if conditions and trees.index(conditions[0]) < len(trees) - 1:
            return self.fault(conditions[0], f"one where: behind the other arguments of {function.name}() (rule FN1)")
        if conditions and function.name == "CountAll":
            expected = "CountAll() without where:, or Count(where: ...) (rule FN4)"
            return self.fault(
                tree, expected, f"Count{self.text[tree.meta.start_pos + len('CountAll') : tree.meta.end_pos]}"
            )
        self.snapshot = function.name
        arguments = [self.of(argument) for argument in trees]
        self.snapshot = None
        call = self.apply(tree, function, arguments[: len(trees) - len(conditions)], AggregateCall)
        if isinstance(call, AggregateCall):
            call = of_extreme(call)
        if not conditions or not isinstance(call, AggregateCall) or arguments[-1] is None:
            return None if conditions else call
        return replace(call, type=type_where(function, call), where=arguments[-1])

    def earlier(self, tree: Tree[Token], function: Function, trees: list[Tree[Token]]) -> Expression | None:
        """A function of earlier tuples (PV1). `change` and `rate` become the expressions for which they stand."""
        if misplaced := self.misplaced(function.name):
            return self.fault(tree, f"{misplaced} (rule PV3)")
        self.looks_back = function.name
        arguments = [self.of(argument) for argument in trees]
        self.looks_back = None
        call = self.apply(tree, function, arguments, Call)
        if call is None or function.name == PREVIOUS:
            return call
        value, *unit = [argument for argument in arguments if argument is not None]
        return self.rate(tree, value, *unit) if unit else self.change(tree, value)

    def misplaced(self, name: str | None) -> str | None:
        """What is expected in place of a function of earlier tuples; None if it is in its place."""
        if self.scope.no_earlier:
            return f"{name}() {self.scope.no_earlier}"
        inside = f"no {name}() inside of {self.looks_back}(); previous(x, 2) is the tuple before the previous one"
        return inside if self.looks_back else None

    def rank(self, tree: Tree[Token], function: Function, trees: list[Tree[Token]]) -> Expression | None:
        """A function of the place of a tuple in the order of a sort (RK1)."""
        name = function.name
        if not self.scope.ranks:
            return self.fault(tree, f"{name}() in the output of a sort over windows that fire alone (rule RK1)")
        return self.fault(tree, f"{name}() without arguments") if trees else Call(name, (), INT64)

    def change(self, tree: Tree[Token], value: Expression) -> Expression | None:
        """`x - previous(x)` (PV5)."""
        before = self.apply(tree, EARLIER[PREVIOUS], [value], Call)
        return self.apply(tree, OPERATORS["-"], [value, before], Call)

    def rate(self, tree: Tree[Token], value: Expression, unit: Expression) -> Expression | None:
        """`change(x) / change(t)` as float64, null where t has not changed (PV6)."""
        changes = [
            self.apply(tree, FUNCTIONS["float64"], [self.change(tree, operand)], Call) for operand in (value, unit)
        ]  # fmt: skip
        quotient = self.apply(tree, OPERATORS["/"], [*changes], Call)
        unchanged = self.apply(tree, OPERATORS["=="], [changes[1], Literal(0.0, FLOAT64)], Call)
        null = Literal(None, optional_of(FLOAT64))
        return self.apply(tree, OPERATORS["if"], [unchanged, null, quotient], Call)

    def custom(self, tree: Tree[Token], trees: list[Tree[Token]]) -> Expression | None:
        """`Custom("package.module:Class", ...)`. The class declares the types of its arguments and its result (A24)."""
        name = self.of(trees[0]) if trees else None
        if not isinstance(name, Literal) or name.type != STRING:
            return self.fault(tree, 'Custom("package.module:Class", ...)')
        if self.scope.no_earlier is None:
            return self.custom_of_tuples(tree, str(name.value), trees)
        try:
            custom_class = custom.load(str(name.value))
        except ClassError as error:
            return self.fault(trees[0], error.expected, error.hint)
        call = self.aggregate(tree, custom.function(custom_class), trees[1:])
        if not isinstance(call, AggregateCall):
            return None
        return replace(call, arguments=(Literal(versioned(str(name.value), custom_class), STRING), *call.arguments))

    def custom_of_tuples(self, tree: Tree[Token], name: str, trees: list[Tree[Token]]) -> Expression | None:
        """`Custom` in the output of a map: a value for each tuple (FN16)."""
        try:
            custom_class = custom.load_of_tuples(name)
        except ClassError as error:
            return self.fault(trees[0], error.expected, error.hint)
        for condition in (argument for argument in trees if argument.data == "where"):
            return self.fault(condition, "where: in aggregation functions alone (rule FN1); a map has a key where")
        function = custom.function_of_tuples(custom_class)
        call = self.apply(tree, function, [self.of(argument) for argument in trees[1:]], Call)
        if not isinstance(call, Call):
            return None
        return replace(call, arguments=(Literal(versioned(name, custom_class), STRING), *call.arguments))

    def pane(self, tree: Tree[Token], function: Function, trees: list[Tree[Token]]) -> Expression | None:
        """A function that describes the window that fires. It is a fault outside of a window of its kind (E32)."""
        kind = self.scope.panes.get(function.name)
        if kind is None:
            described = WINDOW_FUNCTIONS[function.name].describes
            similar = next((name for name in self.scope.panes if WINDOW_FUNCTIONS[name].describes == described), None)
            expected = f"no {function.name}() outside of a {kinds_with(function.name)} window (rule E32)"
            return self.fault(tree, expected, None if similar is None else f"{similar}()")
        if trees:
            return self.fault(tree, f"{function.name}() without arguments")
        return AggregateCall(function.name, (), kind)

    def apply(
        self,
        tree: Tree[Token],
        function: Function,
        arguments: list[Expression | None],
        node: type[Call | AggregateCall],
        hint: str | None = None,
    ) -> Expression | None:
        typed = [argument for argument in arguments if argument is not None]
        if len(typed) < len(arguments):
            return None
        types = tuple(argument.type for argument in typed)
        chosen = matching(function, typed)
        if chosen is not None and (wrong := wrong_constant(chosen.signature, typed)):
            return self.fault(tree, f"{wrong[0]} in {function.name}()", got=wrong[1])
        if chosen is None or not constants_fit(chosen.signature, typed):
            if not any(s.parameters for s in function.signatures):
                hint = f"{function.name}()"
            twin = FUNCTIONS.get(SAME_MEANING.get(function.name, ""))
            if twin is not None and match(twin, types) is not None:
                hint = f"{twin.name}{self.text[tree.meta.start_pos + len(function.name) : tree.meta.end_pos]}"
            instead = "in place of" if function.name == "not" else "not"
            wrong_call = call(function.name, map(str, types))
            return self.fault(tree, f"{signatures(function, len(types))}, {instead} {wrong_call}", hint)
        wanted_arguments = tuple(map(converted, typed, chosen.arguments))
        return node(function.name, wanted_arguments, chosen.result)

    def perhaps_texts(
        self, tree: Tree[Token], sides: Sequence[Tree[Token]], values: Sequence[Expression | None]
    ) -> None:
        """Adds to the fault of an unknown name beside a string, or as a result of `? :`, that it may be a text without
        quotes.
        """
        beside = any(value is not None and value.type.present == STRING for value in values)
        results = sides[1:] if tree.data == "conditional" and not any(values[1:]) else ()
        names = [side for side in (sides if beside else results) if side.data == "name"]
        if len(self.faults) > MAX_FINDINGS:  # no more are shown, and a long expression would take long
            return
        unknown = {side.meta.start_pos: side.meta.end_pos for side in names if self.is_unknown(side)}
        if not unknown:
            return
        text = self.text[: tree.meta.end_pos]
        for start, end in sorted(unknown.items(), reverse=True):
            text = f'{text[:start]}"{text[start:end]}"{text[end:]}'
        for index, fault in enumerate(self.faults):
            if fault.column is not None and fault.column - 1 in unknown:
                expected = f"{fault.expected} or a text in quotes, as in {text[tree.meta.start_pos :]}"
                self.faults[index] = replace(fault, expected=expected)

    def is_unknown(self, name: Tree[Token]) -> bool:
        """Whether the name was reported as unknown, and resembles no attribute."""
        faults = (fault for fault in self.faults if fault.column == name.meta.start_pos + 1)
        return any(fault.hint is None and fault.expected.startswith(NO_ATTRIBUTE) for fault in faults)

    def fault(
        self, tree: Tree[Token], expected: str, hint: str | None = None, got: str | None = None
    ) -> Expression | None:
        meta = tree.meta
        written = self.text[meta.start_pos : meta.end_pos]
        self.faults.append(Fault(expected, got or written, hint, meta.start_pos + 1))
        return None


def type_where(function: Function, call: AggregateCall) -> Type:
    """The type of the result of a call with a condition: as if its arguments were null where it is not true (FN2)."""
    types = [optional_of(argument.type) for argument in call.arguments[:1]] + [
        argument.type for argument in call.arguments[1:]
    ]
    return optional_of(call.type) if function.name == "Custom" or function.optional(types) else call.type


def of_extreme(call: AggregateCall) -> AggregateCall:
    """FirstBy(x, t) as ArgMin(t, x), LastBy(x, t) as ArgMaxLast(t, x) (FN10); other calls as they are."""
    name = {"FirstBy": "ArgMin", "LastBy": "ArgMaxLast"}.get(call.function)
    return call if name is None else replace(call, function=name, arguments=call.arguments[::-1])


def is_null(tree: Tree[Token]) -> bool:
    """Whether the tree is the constant null."""
    return tree.data == "null"


def is_constant(tree: Tree[Token]) -> bool:
    """Whether this is a number, or a sum, difference or product of numbers."""
    if tree.data in ("integer", "float"):
        return True
    inner = [part for part in tree.children if isinstance(part, Tree)]
    signs = [str(part) for part in tree.children if isinstance(part, Token)]
    return tree.data in ("signed", "binary") and {"+", "-", "*"}.issuperset(signs) and all(map(is_constant, inner))


def spelled(digits: str) -> str:
    """The number in JSON's notation: `0.5` for `.5`, and for `+0.5`; `1` for `1.`."""
    return format(Decimal(digits), "f")


def matching(function: Function, arguments: Sequence[Expression]) -> Match | None:
    values = tuple(argument.value if isinstance(argument, Literal) else None for argument in arguments)
    return match(function, tuple(argument.type for argument in arguments), values)


ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}


def unescaped(escape: re.Match[str]) -> str:
    code = escape[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else ESCAPES[code]


def paired(text: str) -> str:
    """The text with each pair of surrogates replaced by its character. Raises UnicodeError for a lone surrogate."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
