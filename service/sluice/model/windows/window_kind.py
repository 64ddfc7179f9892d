"""The base class of window kinds: all properties of a kind that code outside of the engine needs.

Each kind is one module of this folder and one row of `kinds.py`. Its class is the window of a pipeline as an immutable
value; the class attributes describe the kind: the syntax of its clause, its functions, the operators that accept it.
The engine part of each kind is a row of `engine/operators/window_operators.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, Self

from sluice.model.expressions import Expression
from sluice.model.functions import Function, row
from sluice.model.lateness.output_cases import ANY_TIME, Case, Reading, View
from sluice.model.lateness.time_bounds import Span, TimeScope
from sluice.model.types import BOOLEAN, Type
from sluice.model.unparse import seconds
from sluice.model.windows.policies.partition_policies import PartitionEviction
from sluice.model.windows.policies.policy import Aligned, Policy, Resizing, Timer


@dataclass(frozen=True, slots=True)
class SizePart:
    """A part of a clause that has a size in seconds, such as `grace(2.0)`.

    needed       whether a clause must have the part
    zero         whether the size may be 0; else it is above 0
    expression   whether the size may be an expression of the tuple: float64 seconds
    signed       whether the size may be negative
    periods      whether the size may be a period of the calendar, `month`, `quarter` or `year`
    rule         the rule that limits the size, for messages
    """

    rule: str
    needed: bool = False
    zero: bool = True
    expression: bool = False
    signed: bool = False
    periods: bool = False


@dataclass(frozen=True, slots=True)
class WindowFunction:
    """A function of output expressions that describes the window which fires (E29, E32).

    signature   its row in the documentation
    describes   the field of the firing: "start", "end", "last", "index", "timing", "reason", "early" or "empty"
    type        its type; None: the type of the event time
    """

    signature: Function
    describes: str
    type: Type | None = None


#: whether a result is early, for the kinds of windows that give early results
IS_EARLY = WindowFunction(
    row("isEarly", "whether the window is still open, so that this is an early result (F4)", "-> boolean"),
    "early",
    BOOLEAN,
)


class Roles(NamedTuple):
    """The policies of a window by what they do: those that flush a tumbling window, or those that evict from a sliding
    window and trigger it; and the policy by which whole partitions leave.
    """

    flush: tuple[Policy, ...] = ()
    evict: Policy | None = None
    trigger: Policy | None = None
    partitioned: bool = False
    leave: PartitionEviction | None = None


class Panes(Protocol):
    """Panes of event time, of a window that has some: [start, start + `duration`), `period` apart, or if they are
    `cumulating`, all [start, start + k * `period`) up to `duration`. All in nanoseconds; nominal with a `calendar`.
    """

    cumulating: ClassVar[bool]

    @property
    def duration(self) -> int: ...
    @property
    def period(self) -> int: ...
    @property
    def discard_age(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def calendar(self) -> Aligned | None: ...
    @property
    def slots(self) -> int:
        """With `calendar`: the greatest number of steps of a pane; 1 if panes do not grow."""
        ...

    @property
    def panes_of_a_day(self) -> int:
        """With `calendar`: the greatest number of panes that begin on a day; 1 if a pane is not shorter."""
        ...

    def apart(self, duration: int, period: int) -> int:
        """The distance of the starts of panes that have this duration and this period, in any unit."""
        ...

    def no_alignment(self) -> str:
        """What a clause must not have whose panes are aligned, in words (Y3); empty if it has none of it."""
        ...

    def on_calendar(self, aligned: Aligned) -> WindowKind:
        """The window whose panes are those of this calendar."""
        ...


class WindowKind(ABC):
    """A window of a pipeline. The defaults are those of a window without sized parts that needs no event time."""

    __slots__ = ()

    # ---- the clause ----
    #: the word of this kind in a clause
    word: ClassVar[str]
    #: a clause with all parts, as in messages and in the JSON schema
    example: ClassVar[str]
    #: the parts that have sizes; a kind without such parts has policies
    parts: ClassVar[Mapping[str, SizePart]] = {}
    #: whether the clause has `partitioned`; if not, `partition_by` alone partitions the window
    says_partitioned: ClassVar[bool] = True
    #: why a clause of this kind has no partition eviction (partitionAge and others), for messages
    no_partition_eviction: ClassVar[str] = ""
    #: the keys of an operator that only some kinds read, with the default of each: `emit`, `window_set`
    options: ClassVar[Mapping[str, str]] = {}

    # ---- requirements ----
    #: whether the input must have an event time
    needs_event_time: ClassVar[bool] = False
    #: the operators, beside an Aggregate, that accept the window
    operators: ClassVar[frozenset[str]] = frozenset({"sort", "custom"})
    #: nanoseconds of the unit in which the window counts event time; None: the unit of the attribute
    tick: ClassVar[int | None] = None
    #: the functions that describe a window which fires
    functions: ClassVar[tuple[WindowFunction, ...]] = ()

    #: whether the open window can emit early results (F8)
    early: ClassVar[bool] = False
    #: whether the window has panes of event time, which come without tuples, too: empty ones can have results (EP1)
    paned: ClassVar[bool] = False
    #: why panes of the calendar can have no results if they are empty, for messages; empty if they can (EP8)
    no_empty_panes_of_calendar: ClassVar[str] = ""
    #: the function of the latest event time that belongs to a result; empty if there is none
    latest: ClassVar[str] = ""
    #: whether `latest` plus a constant is never behind the watermark
    latest_can_be_moved: ClassVar[bool] = False

    # ---- how it behaves ----
    #: whether tuples leave one by one, so that it fires again with the same tuples
    sliding: ClassVar[bool] = False
    #: whether all tuples of a partition leave with its firing
    tumbling: ClassVar[bool] = False
    #: whether each topic partition of its input has a time of its own (KIP T2)
    timed_by_topic_partition: ClassVar[bool] = False
    #: whether the tuples of a partition are in order of arrival and are evicted one by one
    in_arrival_order: ClassVar[bool] = True
    #: whether CountAll needs the tuples of its own partition only (A18)
    counts_own_partition: ClassVar[bool] = False
    #: what else decides whether a tuple older than `accepts` is late, for messages; empty: such a tuple is always late
    late_if: ClassVar[str] = ""
    #: whether `sluice replay --trace` can show its events
    traced: ClassVar[bool] = True

    @classmethod
    def narrowed(cls, window: WindowKind) -> Self:
        """The same window, which is one of this kind."""
        assert isinstance(window, cls)  # noqa: S101 - the caller was chosen by the kind
        return window

    @abstractmethod
    def clause(self) -> str:
        """The window clause as text."""

    @property
    def panes(self) -> Panes | None:
        """Its panes of event time; None if it has none."""
        return None

    @property
    def table_key(self) -> tuple[str, ...] | None:
        """The key of the table whose rows it has; None for a window of a stream."""
        return None

    def over_table(self, key: tuple[str, ...]) -> WindowKind | None:
        """The window over the rows of a table with this key; None if it has no meaning there (EN15)."""
        del key
        return None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Its sizes in nanoseconds, in the order that its kernel reads."""
        return ()

    @property
    def accepts(self) -> int | None:
        """How many nanoseconds before the watermark, or before stream time, a tuple may be: an older one is or can be
        late. None: no tuple is late.
        """
        return None

    @property
    def holds(self) -> int:
        """By how many nanoseconds at most an operator that emits the window's tuples holds its watermark back."""
        return 0

    @property
    def policies(self) -> tuple[Policy, ...]:
        """The eviction policy, and for a sliding window the trigger policy; empty for a window with sized parts."""
        return (*self.roles.flush, *filter(None, (self.roles.evict, self.roles.trigger)))

    @property
    def roles(self) -> Roles:
        """The policies by what they do; none for a window with sized parts."""
        return Roles()

    @property
    def fired_by(self) -> tuple[Policy, ...]:
        """The policies of which each alone fires the window."""
        return self.roles.flush or self.policies[1:]

    @property
    def calendar(self) -> Aligned | None:
        """The calendar whose days, weeks or months the window's panes are; None if it has none."""
        return None

    @property
    def timer(self) -> Timer | None:
        """The policy that fires the window periodically, which may be aligned to a wall clock."""
        return next(filter(None, (policy.timer for policy in self.fired_by)), None)

    def with_timer(self, timer: Timer) -> Self:
        """The window with another periodic timer. A kind with a `timer` overrides this; others have none to replace."""
        del timer
        return self

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes of a tuple that its policies compare."""
        return tuple(name for policy in self.policies for name in policy.attributes)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The expressions of a tuple that the window itself reads: its sizes where these are not constant."""
        return tuple(size for policy in self.policies for size in policy.expressions)

    def problems(self) -> Iterator[str]:
        """The errors of the window, each as a message that says what was expected."""
        return iter(())

    def no_early(self) -> str:
        """Why this window of a kind with early results can have none; empty if it can (F8)."""
        return ""

    def cautions(self) -> Iterator[str]:
        """Warnings about a legal window that may be a mistake."""
        return iter(())

    # ---- buckets ----

    def needs_one_bucket(self, *, described: frozenset[str], behind_window: bool) -> str:
        """The reason why one bucket must see the tuples of all keys; empty if that is not necessary.

        `described`: the fields of a firing that the outputs read (`WindowFunction.describes`). `behind_window`: a
        windowed operator is upstream.
        """
        del described
        if self.roles.leave is not None:
            return "the evicted partition depends on all partitions (V8, V10, V12)"
        if behind_window and self.flushed_by_marks:
            return "each mark of the upstream operator closes the tuples of all keys (T18)"
        return ""

    @property
    def fires_at_watermarks(self) -> bool:
        """Whether it fires at watermarks only. One watermark may then fire several windows of a partition."""
        return False

    @property
    def flushed_by_marks(self) -> bool:
        """Whether window marks fire it."""
        return any(policy.by_marks for policy in self.policies)

    @property
    def only_stores(self) -> bool:
        """Whether tuples are only stored, and cause no output before the next window mark (T18)."""
        return False

    @property
    def by_clock(self) -> bool:
        """Whether it waits for the operator clock."""
        return self.timer is not None

    # ---- event times of results ----

    def cases(self, reading: Reading) -> Iterator[Case]:
        """When it emits, and what is then known of the event times in its results.

        By default as windows by count, clock, delta and marks: they hold tuples for a time that has nothing to do with
        event time. The tuple that came last is on time if it fires the window, or if only tuples of the window make the
        watermark.
        """
        arrived, own_whole = Span(-reading.arriving), reading.own_whole
        followed = own_whole is not None and not (own_whole.idles or own_whole.advances)
        last = arrived if (self.fired_by_last and reading.at_once) or followed else ANY_TIME
        scope = TimeScope(reading.times(arrived if self.holds_one_tuple else ANY_TIME, last, last), {}, reading.tick)
        held = "while the watermark advances" if self.timer is None else "by the clock"
        yield Case((View(0, scope),), f"the window holds tuples {held}")

    @property
    def holds_one_tuple(self) -> bool:
        """Whether each firing has one tuple."""
        return False

    @property
    def fired_by_last(self) -> bool:
        """Whether each firing is caused by the arrival of a tuple which is then the last one in the window."""
        return False

    @property
    def emitted(self) -> str:
        """When a result comes out, in words that follow one about its event time."""
        return "when the window fires"

    def late_instead(self, attribute: str, stream: str, time: Expression | None) -> str:
        """What to write if results with the event time `attribute`, which is `time` in the file, are late for the
        readers of `stream`, and no other event time alone helps; empty if one may.
        """
        del attribute, stream, time
        return ""

    # ---- changes ----

    def resized(self, later: object, *, one_by_one: bool) -> Resizing:
        """How `later` differs in the size of its eviction policy (`Policy.resized`); NONE if anything else differs."""
        del later, one_by_one
        return Resizing.NONE

    # ---- the clock ----

    def falls_due(self, *, evictions: bool) -> bool:
        """Whether the clock alone can cause an output. `evictions`: the operator also outputs evicted tuples."""
        return any(policy.by_clock for policy in (self.policies if evictions else self.fired_by))

    # ---- words ----

    @abstractmethod
    def fires(self, lag: int | None, *, incomplete: bool) -> tuple[str, str]:
        """When the window fires, and how long a tuple waits for that, as texts for `sluice explain`.

        `lag`: how far watermarks are behind the newest tuple, in nanoseconds; None: watermarks come with the stream.
        `incomplete`: results are also emitted before the window was full for the first time.
        """

    #: a window partition, to which the number of bytes in `sluice explain` belongs
    partition_in_words: ClassVar[str] = "window partition"

    @property
    def time_in_words(self) -> str:
        """The unit, in words, for which a window over event time keeps one summary."""
        return "event time"

    @property
    def tuples_when_full(self) -> int | None:
        """The number of tuples in a full partition; None if the window does not count tuples."""
        return None


class SizedKind(WindowKind):
    """A window whose clause has parts with sizes instead of policies."""

    __slots__ = ()

    #: the keys that partition the window, for messages
    partitioner: ClassVar[str] = "partition_by alone"

    @classmethod
    @abstractmethod
    def of(cls, sizes: Mapping[str, Any], options: Mapping[str, str], *, partitioned: bool, event_time: bool) -> Self:
        """The window of a clause with these sizes: part -> nanoseconds, or an expression where the part may be one.
        `options` has the keys that the kind reads.

        `event_time`: whether the input has one.
        """


def with_watermarks(wait: str, lag: int | None) -> str:
    """How long a tuple waits for a window that a watermark fires."""
    if lag is None:
        return f"{wait}, and for the watermark that comes with the stream"
    return f"{wait}, and {seconds(lag)} s, by which watermarks lag"
