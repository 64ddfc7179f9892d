"""The policy `delta(attribute, size)`: by how much an attribute is above that of an earlier tuple."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import ClassVar

from sluice.model.errors import Fault, nearest, one_of
from sluice.model.expressions import Call, Expression, certain
from sluice.model.types import SCALARS, Distance, Type, parse_type
from sluice.model.types.int64_type import MAX_INT64
from sluice.model.unparse import expression
from sluice.model.windows.policies.policy import Held, Input, Mistyped, Part, Policy, Replayed


@dataclass(frozen=True, slots=True)
class Delta(Policy):
    """`delta(attribute, size)`: strictly more than `size` above the reference (T10 to T15, S8, S11).

    `size` is in units of the attribute: an int for int64, a float for float64, nanoseconds for a timestamp. Or it is an
    expression over the newest tuple, with the type of the attribute, for a timestamp float64 seconds.
    """

    word: ClassVar[str] = "delta"
    form: ClassVar[str] = "delta(attribute, size)"
    reals: ClassVar[tuple[str, ...]] = ("size",)
    may_never_fill: ClassVar[str] = "with delta nothing comes out until a tuple leaves, which may never happen (S18)"

    attribute: str
    size: int | float | Expression
    #: the number of units of a whole number `size` in 1 of the pipeline file, for texts
    unit: int = field(default=1, compare=False)

    @classmethod
    def read(cls, part: Part, input_: Input | None) -> Delta | Fault | Mistyped:
        match part.arguments:
            case (attribute, text) if text and ((size := part.seconds(text)) is None or size >= 0):
                return Mistyped() if input_ is None else _typed(attribute, text, part, input_)
        expected = "the name of an attribute, and a number that is not negative or an expression"
        return part.fault(f"delta(attribute, size) with {expected}")

    def clause(self) -> str:
        return f"delta({self.attribute}, {self._size()})"

    def _size(self) -> str:
        """The size as the pipeline file has it."""
        match self.size:
            case int():
                return f"{Decimal(self.size) / self.unit:f}"
            case float():
                return str(self.size)
        return expression(self.size)

    @property
    def attributes(self) -> tuple[str, ...]:
        return (self.attribute,)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return () if isinstance(self.size, int | float) else (self.size,)

    def flushes(self) -> tuple[str, str]:
        return f"with the first tuple beyond {self.attribute} + {self._size()}", "until such a tuple arrives"

    def triggers(self) -> tuple[str, str]:
        fires = f"with each tuple beyond {self.attribute} + {self._size()} since the last firing"
        return fires, "for the next firing"

    def next_flush(self, held: Held) -> str:
        del held
        return f"with a tuple whose {self.attribute} is too far from that of the first one"

    def next_trigger(self, held: Held) -> str:
        del held
        return f"with a tuple whose {self.attribute} is too far from that of the last firing"

    def not_met(self, replay: Replayed) -> str:
        del replay
        return f"no tuple exceeded {self.clause()}"


def _typed(attribute: str, text: str, part: Part, input_: Input) -> Delta | Mistyped:
    """The policy over an attribute of the input (W8), with its size in the attribute's type; or the faults."""
    kind = input_.attributes.get(attribute)
    if kind is None:
        expected = f"an attribute of {input_.stream} in delta ({', '.join(input_.attributes)})"
        fault = part.fault(expected, nearest(attribute, input_.attributes))
        return Mistyped((replace(fault, got=attribute),))
    distance = kind.distance
    if distance is None:
        type_words = one_of(row.described for row in SCALARS if row.distance)
        return _wrong(part, f"delta over {type_words}, not {attribute}, a {kind}")
    if part.with_unit(text) is not None and distance.unit == 1:
        return _wrong(part, f"a size without a unit, as {attribute} is {kind.described}")
    number = part.seconds(text)
    if number is None:
        return _with_expression(attribute, text, kind, part, input_)
    size = _in_units(number, distance)
    return Delta(attribute, size, distance.unit or 1) if size is not None else _wrong(part, distance.exact)


def _with_expression(attribute: str, text: str, kind: Type, part: Part, input_: Input) -> Delta | Mistyped:
    """The policy whose size is an expression over the newest tuple; or the faults."""
    size = input_.parse(text)
    if isinstance(size, tuple):
        return Mistyped(part.inside(text, size))
    assert kind.distance is not None  # noqa: S101 - the caller has checked
    size = certain(size)  # a size that is null is an error (NU27)
    size_type = parse_type(kind.distance.size)
    if size_type.word in size.type.promoted:
        size = Call(size_type.word, (size,), size_type)
    if size.type != size_type:
        unit = "in seconds, " if kind.distance.in_seconds else ""
        return _wrong(part, f"a size that is {size_type}, {unit}as {attribute} is {kind}, not {size.type}")
    return Delta(attribute, size)


def _wrong(part: Part, expected: str) -> Mistyped:
    return Mistyped((part.fault(expected),))


def _in_units(size: Decimal, distance: Distance) -> int | float | None:
    """The size in the unit of the engine (a timestamp's is 1 ns); None if it is not exact in that unit."""
    if distance.unit is None:
        return float(size)
    exact = size * distance.unit
    return int(exact) if exact <= MAX_INT64 and exact == exact.to_integral_value() else None
