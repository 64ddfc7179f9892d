"""The base class of policies: all properties of a policy that code outside of the engine needs.

A policy says when tuples leave a window, or when the window fires. Each is one module of this folder and one row of
`policy_table.py`. The engine part of each policy is a row of `engine/windows/policies.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import ClassVar, Literal, NamedTuple, Protocol, Self

from sluice.model.errors import Fault
from sluice.model.expressions import Expression
from sluice.model.types import Type
from sluice.time_units import SECOND

#: the greatest count of a clause
MAX_COUNT = 2**32 - 1
#: the greatest number of seconds of a clause: 2**63 - 1 nanoseconds
MAX_SECONDS = Decimal(2**63 - 1) / SECOND

#: the latency of a window that fires with each tuple, for `sluice explain`
WITHIN_BATCH = "none: the output is in the batch that read the tuple"

#: what a policy does: it flushes a tumbling window, evicts from a sliding window, or triggers a sliding window
Role = Literal["flush", "evict", "trigger"]


class Part(Protocol):
    """A policy as a window clause has it, `count(5)`; config/syntax/clause_parts.py says what each member returns."""

    @property
    def arguments(self) -> tuple[str, ...] | None: ...
    @property
    def durations(self) -> str: ...
    def fault(self, expected: str, hint: str | None = None) -> Fault: ...
    def inside(self, argument: str, faults: tuple[Fault, ...]) -> tuple[Fault, ...]: ...
    def spelled_here(self, words: Container[str] = ()) -> str | None: ...
    def whole(self) -> int | None: ...
    def seconds(self, text: str) -> Decimal | None: ...
    def with_unit(self, text: str) -> Decimal | None: ...


class Input(NamedTuple):
    """The input of an operator: its stream, its attributes, and the parser of expressions over its newest tuple."""

    stream: str
    attributes: Mapping[str, Type]
    parse: Callable[[str], Expression | tuple[Fault, ...]]


class Mistyped(NamedTuple):
    """A policy in the right form whose attributes are missing in the input, or have wrong types. There are no faults if
    the input is unknown.
    """

    faults: tuple[Fault, ...] = ()


class Held(NamedTuple):
    """A window partition now: the number of its tuples, of insertions since its count trigger fired, and when its timer
    is due, in words.
    """

    tuples: int
    since_trigger: int
    due: str


class Replayed(NamedTuple):
    """A replay in which a window did not fire.

    moved     nanoseconds by which the operator clock moved
    full      what to add if the window may not have been full
    no_mark   why no window mark flushed it
    """

    moved: int
    full: str
    no_mark: str


class Resizing(Enum):
    """How the size of a window has changed. NONE: its tuples cannot be moved to the changed window."""

    SMALLER = "smaller"
    LARGER = "larger"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Aligned:
    """The wall-clock times of a zone at which a timer ticks.

    at        one of them, nanoseconds from midnight on; the others are whole periods away, on each day
    weekday   the day that a period of a week begins on, 0 is Monday; None: the period divides a day
    """

    at: int
    zone: str
    weekday: int | None = None
    #: the period in months of the calendar, 1, 3 or 12: the ticks are on the first day of a period (Y1); None: the
    #: period has a fixed length
    months: int | None = None


class Policy(ABC):
    """A policy of a window. The defaults are those of a policy that only arriving tuples satisfy."""

    __slots__ = ()

    # ---- the clause ----
    #: the word of this policy in a clause
    word: ClassVar[str]
    #: the policy with its arguments, for messages
    form: ClassVar[str]
    #: the fields that may be float64 numbers, which definitions in checkpoints have as texts
    reals: ClassVar[tuple[str, ...]] = ()

    @classmethod
    @abstractmethod
    def read(cls, part: Part, input_: Input | None) -> Self | Fault | Mistyped:
        """The policy, with sizes in the types of the attributes that it compares; or what is wrong. `input_` is None if
        the input is unknown.
        """

    @classmethod
    def read_early(cls, part: Part) -> Self | Fault | None:
        """The policy of early results (F1, F2), or what is wrong; None if early results have no such policy."""
        del part
        return None

    @abstractmethod
    def clause(self) -> str:
        """The policy as text."""

    def instead(self, role: Role) -> str:
        """What to write instead of it in this role; empty if it has this role."""
        del role
        return ""

    def caution(self, role: Role) -> str:
        """A warning about a legal policy that may be a mistake; empty if there is none."""
        del role
        return ""

    # ---- how it behaves ----
    #: whether the operator clock alone satisfies it
    by_clock: ClassVar[bool] = False
    #: whether window marks flush the window
    by_marks: ClassVar[bool] = False
    #: whether a sliding window that evicts by it is full with its first tuple (S18)
    fills_at_once: ClassVar[bool] = False
    #: a warning about a sliding window that evicts by it: why it may never be full; empty if it will be
    may_never_fill: ClassVar[str] = ""

    @property
    def timer(self) -> Timer | None:
        """The policy itself if it fires the window periodically."""
        return None

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that it compares."""
        return ()

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """Its sizes that are expressions of the newest tuple."""
        return ()

    @property
    def tuples(self) -> int | None:
        """The number of tuples that satisfies it; None if it does not count tuples."""
        return None

    @property
    def keeps_nothing(self) -> bool:
        """Whether a window that evicts by it stores no tuple (S9)."""
        return False

    @property
    def apart(self) -> bool:
        """Whether each tuple leaves independently of the tuples that arrive after it."""
        return self.keeps_nothing

    def resized(self, later: Policy, *, one_by_one: bool) -> Resizing:
        """How eviction by `later` differs in size. `one_by_one`: the operator evicts at most one tuple with each
        arrival, so that a smaller count does not reach its size.
        """
        del later, one_by_one
        return Resizing.NONE

    # ---- words ----

    @abstractmethod
    def flushes(self) -> tuple[str, str]:
        """When it flushes a tumbling window, and how long a tuple waits for that, for `sluice explain`."""

    def triggers(self) -> tuple[str, str]:
        """When it fires a sliding window, and how long a tuple waits for that, for `sluice explain`."""
        return self.flushes()

    @abstractmethod
    def next_flush(self, held: Held) -> str:
        """When a tumbling window is flushed next, for the page of the service."""

    def next_trigger(self, held: Held) -> str:
        """When a sliding window fires next, for the page of the service."""
        return self.next_flush(held)

    def not_met(self, replay: Replayed) -> str:
        """Why it was not satisfied in a replay; empty if there is nothing to say."""
        del replay
        return ""


def amount(count: int, word: str) -> str:
    """`1 tuple`, `2,000 tuples`."""
    return f"{count:,} {word}{'s' * (count != 1)}"


class Timer(Policy):
    """A policy that fires a window periodically: each `nanoseconds`, or at wall-clock times."""

    __slots__ = ()

    nanoseconds: int
    aligned: Aligned | None

    @abstractmethod
    def aligned_to(self, times: Aligned) -> Self:
        """The timer that fires at these wall-clock times."""
