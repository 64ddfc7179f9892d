"""Parses window clauses of a keyword and a list of sizes: `timeInterval, intervalDuration(60.0), discardAge(5.0)`.

The kind of window says which sizes may follow its keyword (`SizedKind` in model/windows/window_kind.py). They may
stand in any order. A size is a number of seconds, read as an exact decimal, or a duration with a unit (durations.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sluice.config.syntax.clause_parts import Part
from sluice.config.syntax.durations import EXAMPLES, NUMBER, seconds, spelled_here
from sluice.config.syntax.other_systems import part_of_another_system, size_of_another_system
from sluice.model.errors import Fault, nearest, one_of
from sluice.model.windows.kinds import SIZED
from sluice.model.windows.policies.partition_policies import PARTITION_EVICTIONS
from sluice.model.windows.policies.policy import MAX_SECONDS
from sluice.model.windows.policies.time_policy import CALENDAR
from sluice.model.windows.window_kind import SizedKind, SizePart
from sluice.time_units import SECOND

#: the parts of all kinds -> the kinds that have each
PARTS = {
    part: [word for word, kind in SIZED.items() if part in kind.parts]
    for sized in SIZED.values()
    for part in sized.parts
}


#: the arguments of a size that is a period of the calendar -> its months
PERIODS: Mapping[tuple[str, ...] | None, int] = {(word,): months for word, (months, _) in CALENDAR.items()}


#: the hint for a size that stands alone
ALONE = re.compile(r"time\((?P<size>[^)]*)\)")


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a clause: part -> nanoseconds, or the text of an expression of the tuple, and where it stands."""

    kind: type[SizedKind]
    nanoseconds: Mapping[str, int]
    expressions: Mapping[str, str]
    parts: Mapping[str, Part]
    #: the length of a period of the calendar; None: the window has none
    months: int | None = None


def read_sizes(parts: list[Part], faults: list[Fault], kinds: Mapping[str, type[SizedKind]] = SIZED) -> Sizes:
    """The sizes of a clause in which the word of one of these kinds occurs (W12, W17, W26)."""
    kind = kinds[next(part.word for part in parts if part.word in kinds)]
    seen: dict[str, Part] = {}
    sizes: dict[str, int] = {}
    expressions: dict[str, str] = {}
    months = None
    for part in parts:
        if part.word in seen:
            faults.append(part.fault(f"{part.word} only once (rule W12)"))
        elif part.word in kind.parts and kind.parts[part.word].expression and is_expression(part):
            expressions[part.word] = (part.arguments or ("",))[0]
        elif part.word in kind.parts and kind.parts[part.word].periods and part.arguments in PERIODS:
            months = PERIODS[part.arguments]
        elif part.word in kind.parts:
            take_size(part, kind.parts[part.word], sizes, faults)
        elif part.word == kind.word or (part.word == "partitioned" and kind.says_partitioned):
            if part.arguments is not None:
                faults.append(part.fault(f"{part.word} without parentheses", with_size(part, kind)))
        else:
            faults.append(foreign_part(part, kind))
        seen.setdefault(part.word, part)
    missing = [word for word, size_part in kind.parts.items() if size_part.needed and word not in seen]
    if missing and in_words_of(kind, faults):
        missing = []
    missing = [word for word in missing if not any(f"{word}(" in f"{fault.hint} {fault.expected}" for fault in faults)]
    faults.extend(Fault(f"{word}(seconds) in {article(kind.word)} {kind.word} window (rule W12)") for word in missing)
    return Sizes(kind, sizes, expressions, seen, months)


def in_words_of(kind: type[SizedKind], faults: list[Fault]) -> bool:
    """Adds to the fault of a size without its word, as in `session, 30m`, the words of this kind of window, in place of
    the policies that the fault suggests. Returns whether there is such a fault.
    """
    words = [word for word, size_part in kind.parts.items() if size_part.needed] or [*kind.parts][:1]
    replaced = False
    for index, fault in enumerate(faults):
        if sized := ALONE.fullmatch(f"time({fault.got})" if NUMBER.fullmatch(fault.got or "") else fault.hint or ""):
            hint = ", ".join(f"{word}({sized['size']})" for word in words)
            faults[index] = replace(fault, expected=f"a call such as {words[0]}(5m)", hint=hint)
            replaced = True
    return replaced


def with_size(part: Part, kind: type[SizedKind]) -> str | None:
    """What to write for a kind of window that is called with its size, as in `timeInterval(60)`."""
    needed = [word for word, size_part in kind.parts.items() if size_part.needed]
    if part.word != kind.word or len(needed) != 1 or not part.arguments or len(part.arguments) > 1:
        return None
    return f"{kind.word}, {needed[0]}({spelled_here(part.arguments[0]) or part.arguments[0]})"


def article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def is_expression(part: Part) -> bool:
    match part.arguments:
        case (text,):
            return bool(text) and seconds(text) is None and part.spelled_here() is None
    return False


def take_size(part: Part, size_part: SizePart, sizes: dict[str, int], faults: list[Fault]) -> None:
    value = size(part, size_part)
    if isinstance(value, Fault):
        faults.append(value)
    else:
        sizes[part.word] = value


def size(part: Part, size_part: SizePart) -> int | Fault:
    match part.arguments:
        case (text,) if (length := seconds(text)) is not None and (
            -MAX_SECONDS if size_part.signed else 0
        ) <= length <= MAX_SECONDS:
            exact = length * SECOND
            if exact != int(exact):
                return part.fault(f"{part.word}(seconds) in whole nanoseconds")
            return int(exact) if exact or size_part.zero else part.fault(limits(part, size_part))
        case (text,) if (length := seconds(text)) is not None and abs(length) > MAX_SECONDS:
            return part.fault(f"{part.word}(seconds) with at most 292 years")
        case _:
            return part.fault(limits(part, size_part), part.spelled_here(CALENDAR if size_part.periods else ()))


def limits(part: Part, size_part: SizePart) -> str:
    """The values that a size may have, in words (W26)."""
    least = "of any sign" if size_part.signed else "from 0 on" if size_part.zero else "above 0"
    more = ", or an expression of the tuple" if size_part.expression else ""
    return f"{part.word}(seconds) with a number {least}, such as {EXAMPLES}{more} (rule {size_part.rule})"


def foreign_part(part: Part, kind: type[SizedKind]) -> Fault:
    """The fault of a part that this kind lacks: a policy of other windows (E27, W17), or an unknown word (W12)."""
    if part.word == "partitioned":
        return part.fault(
            f"no partitioned: {article(kind.word)} {kind.word} window is partitioned by {kind.partitioner}"
        )
    if part.word in PARTITION_EVICTIONS:
        return part.fault(kind.no_partition_eviction)
    if other := part_of_another_system(kind.word, part.word):
        return part.fault(other)
    words = [*kind.parts, *["partitioned"] * kind.says_partitioned]
    meant = size_of_another_system(kind.word, part.word) or nearest(part.word, words)
    if meant is not None and meant in kind.parts and part.arguments is not None and len(part.arguments) == 1:
        meant += f"({spelled_here(part.arguments[0]) or part.arguments[0]})"
    return part.fault(f"{one_of(words)} in {article(kind.word)} {kind.word} window (rule W12)", meant)
