"""The windows of a join over the event times of both sides: `interval` and `asOf` (rules I1 to I8, U1 to U7).

Such a window is in the key `window` of a join. It takes the place of `window_left` and `window_right`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from sluice.model.unparse import number, seconds
from sluice.model.windows.policies.policy import WITHIN_BATCH
from sluice.model.windows.window_kind import SizedKind, SizePart, with_watermarks


@dataclass(frozen=True, slots=True)
class JoinWindow(SizedKind):
    """A window that says which tuples of the two sides of a join are partners. Sizes are nanoseconds."""

    says_partitioned = False
    needs_event_time = True
    operators = frozenset({"join"})
    in_arrival_order = False
    partitioner = "equality_left and equality_right"
    #: the algorithms of a join that the window has
    algorithms: ClassVar[tuple[str, ...]] = ("inner", "leftOuter", "rightOuter", "outer")
    #: whether the join may have a further condition on a pair
    takes_match: ClassVar[bool] = True

    late_if = "even if its partner waits"

    grace: int = 0

    @property
    def accepts(self) -> int:
        return self.grace

    @property
    def holds(self) -> int:
        """(I7, U6)"""
        return self.grace

    def fires_at_watermark(self, *, outer: bool) -> bool:
        """Whether a watermark causes outputs. `outer`: tuples without a partner are emitted."""
        return outer

    def _text(self, parts: Mapping[str, int]) -> str:
        sizes = [f"{part}({'-' * (size < 0)}{number(abs(size))})" for part, size in parts.items()]
        return ", ".join([self.word, *sizes, *([f"grace({number(self.grace)})"] if self.grace else [])])


@dataclass(frozen=True, slots=True)
class Interval(JoinWindow):
    """`interval`: a right tuple is a partner if its event time is at most `before` earlier, and at most `after` later,
    than the event time of the left tuple (I1). A negative size moves its end of the interval to the other side
    of the left tuple.
    """

    word = "interval"
    example = "interval, before(5.0), after(10.0), grace(2.0)"
    parts: ClassVar[Mapping[str, SizePart]] = {
        "before": SizePart("I1", needed=True, signed=True),
        "after": SizePart("I1", needed=True, signed=True),
        "grace": SizePart("I4"),
    }

    before: int = 0
    after: int = 0

    @classmethod
    def of(cls, sizes: Mapping[str, int], options: Mapping[str, str], *, partitioned: bool, event_time: bool) -> Self:
        del options, partitioned, event_time
        return cls(sizes.get("grace", 0), sizes.get("before", 0), sizes.get("after", 0))

    def clause(self) -> str:
        return self._text({"before": self.before, "after": self.after})

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.before, self.after, self.grace

    def problems(self) -> Iterator[str]:
        if self.before + self.after < 0:
            yield "an interval that does not end before it begins: before and after together from 0 on (rule I1)"

    @property
    def holds(self) -> int:
        """A pair is complete with its later tuple, and the earlier one is at most the interval older (I7)."""
        return self.grace + max(self.before, self.after, 0)

    def fires(self, lag: int | None, *, incomplete: bool) -> tuple[str, str]:
        """`incomplete`: tuples without a partner are emitted, too."""
        alone = with_watermarks(
            f"up to {seconds(self.holds - self.grace)} s, and the grace of {seconds(self.grace)} s", lag
        )
        fires = "with each tuple that finds partners in its interval"
        return fires, WITHIN_BATCH + (f"; a tuple without a partner: {alone}" if incomplete else "")


@dataclass(frozen=True, slots=True)
class AsOf(JoinWindow):
    """`asOf`: the partner of a left tuple is the newest right tuple that is not newer (U1), and not older by more than
    the maximum age (U3).
    """

    word = "asOf"
    example = "asOf, maximumAge(60.0), grace(2.0)"
    parts: ClassVar[Mapping[str, SizePart]] = {"maximumAge": SizePart("U3"), "grace": SizePart("U4")}
    algorithms = ("inner", "leftOuter")
    takes_match = False

    #: None: a partner may have any age
    age: int | None = None

    @classmethod
    def of(cls, sizes: Mapping[str, int], options: Mapping[str, str], *, partitioned: bool, event_time: bool) -> Self:
        del options, partitioned, event_time
        return cls(sizes.get("grace", 0), sizes.get("maximumAge"))

    def clause(self) -> str:
        return self._text({} if self.age is None else {"maximumAge": self.age})

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.age or 0, self.grace

    def fires_at_watermark(self, *, outer: bool) -> bool:
        del outer
        return True

    def fires(self, lag: int | None, *, incomplete: bool) -> tuple[str, str]:
        del incomplete
        return (
            "with a watermark, for each left tuple that is before the watermark less the grace",
            with_watermarks(f"the grace of {seconds(self.grace)} s", lag),
        )


#: the word of a clause -> the window
JOIN_WINDOWS: Mapping[str, type[JoinWindow]] = {kind.word: kind for kind in (Interval, AsOf)}
