"""The policy `delta(attribute, size)`: by how much an attribute is above that of an earlier tuple."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import ClassVar

from sluice.model.errors import Fault, nearest
from sluice.model.expressions import Call, Expression
from sluice.model.types import FLOAT64, INT64, TIMESTAMP, Type
from sluice.model.unparse import expression
from sluice.model.windows.policies.policy import Held, Input, Mistyped, Part, Policy, Replayed
from sluice.time_units import SECOND

MAX_INT64 = 2**63 - 1


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

    @classmethod
    def read(cls, part: Part, given: Input | None) -> Delta | Fault | Mistyped:
        match part.arguments:
            case (attribute, text) if text and ((size := part.seconds(text)) is None or size >= 0):
                return Mistyped() if given is None else _typed(attribute, text, part, given)
        what = "the name of an attribute, and a number that is not negative or an expression"
        return part.fault(f"delta(attribute, size) with {what}")

    def clause(self) -> str:
        return f"delta({self.attribute}, {self._size()})"

    def _size(self) -> str:
        return str(self.size) if isinstance(self.size, int | float) else expression(self.size)

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


def _typed(attribute: str, text: str, part: Part, given: Input) -> Delta | Mistyped:
    """The policy over an attribute of the input (W8), with its size in the attribute's type; or the faults."""
    kind = given.attributes.get(attribute)
    if kind is None:
        expected = f"an attribute of {given.stream} in delta ({', '.join(given.attributes)})"
        fault = part.fault(expected, nearest(attribute, given.attributes))
        return Mistyped((replace(fault, got=attribute),))
    if not kind.numeric and kind != TIMESTAMP:
        return _wrong(part, f"delta over an int64, a float64 or a timestamp, not {attribute}, a {kind}")
    if part.with_unit(text) is not None and kind == INT64:
        return _wrong(part, f"a size without a unit, as {attribute} is an int64")
    number = part.seconds(text)
    if number is None:
        return _with_expression(attribute, text, kind, part, given)
    size = _in_units(number, kind)
    return Delta(attribute, size) if size is not None else _wrong(part, UNITS[kind])


def _with_expression(attribute: str, text: str, kind: Type, part: Part, given: Input) -> Delta | Mistyped:
    """The policy whose size is an expression over the newest tuple; or the faults."""
    size = given.parse(text)
    if isinstance(size, tuple):
        return Mistyped(part.inside(text, size))
    wanted = INT64 if kind == INT64 else FLOAT64
    if size.type == INT64 != wanted:
        size = Call("float64", (size,), FLOAT64)
    if size.type != wanted:
        unit = "in seconds, " if kind == TIMESTAMP else ""
        return _wrong(part, f"a size that is {wanted}, {unit}as {attribute} is {kind}, not {size.type}")
    return Delta(attribute, size)


def _wrong(part: Part, expected: str) -> Mistyped:
    return Mistyped((part.fault(expected),))


#: by type of the attribute: the sizes that a delta policy may have, for messages
UNITS: Mapping[Type, str] = {
    INT64: f"a whole size up to {MAX_INT64}, as the attribute is an int64",
    TIMESTAMP: "a size in seconds and whole nanoseconds, as the attribute is a timestamp",
}


def _in_units(size: Decimal, kind: Type) -> int | float | None:
    """The size in the unit of the engine (a timestamp's is 1 ns); None if it is not exact in that unit."""
    if kind not in UNITS:
        return float(size)
    exact = size * SECOND if kind == TIMESTAMP else size
    return int(exact) if exact <= MAX_INT64 and exact == exact.to_integral_value() else None
