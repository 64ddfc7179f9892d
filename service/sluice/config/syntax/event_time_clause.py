"""The window clauses over event time (reference section 5; KIP-450).

timeInterval, intervalDuration(d) [, creationPeriod(p)] [, discardAge(a)] [, intervalOffset(o)] [, partitioned]
slidingTime, timeDifference(d) [, grace(g)]

The parts may stand in any order; sizes are seconds, exact decimal numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from sluice.config.syntax.clause_parts import MOST_SECONDS, NUMBER, Part
from sluice.model.errors import Fault, nearest, one_of
from sluice.time_units import SECOND

KINDS = ("timeInterval", "slidingTime")


@dataclass(frozen=True, slots=True)
class SizePart:
    """A part with a size. `least`: whether the size may be 0, or must be above it (W26, KIP T11)."""

    kind: str
    needed: bool = False
    zero: bool = True


#: the parts with a size
PARTS: Mapping[str, SizePart] = {
    "intervalDuration": SizePart("timeInterval", needed=True, zero=False),
    "creationPeriod": SizePart("timeInterval", zero=False),
    "discardAge": SizePart("timeInterval"),
    "intervalOffset": SizePart("timeInterval"),
    "timeDifference": SizePart("slidingTime", needed=True, zero=False),
    "grace": SizePart("slidingTime"),
}


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the clause says: part -> nanoseconds, and where it stands."""

    kind: str
    nanoseconds: Mapping[str, int]
    parts: Mapping[str, Part]


def read_sizes(parts: list[Part], faults: list[Fault]) -> Sizes:
    """The sizes of a clause in which one of KINDS occurs (W12, W17, W26)."""
    kind = next(part.word for part in parts if part.word in KINDS)
    known = [word for word, of in PARTS.items() if of.kind == kind]
    seen: dict[str, Part] = {}
    sizes: dict[str, int] = {}
    for part in parts:
        if part.word in seen:
            faults.append(part.fault(f"{part.word} only once (rule W12)"))
        elif part.word in known:
            take_size(part, sizes, faults)
        elif part.word == kind or (part.word == "partitioned" and kind == "timeInterval"):
            if part.arguments is not None:
                faults.append(part.fault(f"{part.word} without parentheses"))
        else:
            faults.append(stranger(part, kind, known))
        seen.setdefault(part.word, part)
    missing = [word for word in known if PARTS[word].needed and word not in seen]
    faults.extend(Fault(f"{word}(seconds) in a {kind} window (rule W12)") for word in missing)
    return Sizes(kind, sizes, seen)


def take_size(part: Part, sizes: dict[str, int], faults: list[Fault]) -> None:
    found = size(part)
    if isinstance(found, Fault):
        faults.append(found)
    else:
        sizes[part.word] = found


def size(part: Part) -> int | Fault:
    least = "from 0 on" if PARTS[part.word].zero else "above 0"
    match part.arguments:
        case (text,) if NUMBER.fullmatch(text) and 0 <= Decimal(text) <= MOST_SECONDS:
            exact = Decimal(text) * SECOND
            if exact != int(exact):
                return part.fault(f"{part.word}(seconds) in whole nanoseconds")
            return int(exact) if exact or PARTS[part.word].zero else part.fault(limits(part, least))
        case _:
            return part.fault(limits(part, least))


def limits(part: Part, least: str) -> str:
    rule = "W26" if PARTS[part.word].kind == "timeInterval" else "KIP T11"
    return f"{part.word}(seconds) with a number {least} (rule {rule})"


def stranger(part: Part, kind: str, known: list[str]) -> Fault:
    """A word that has no place in such a clause: a policy of another window (E27, W17), or none at all (W12)."""
    if part.word == "partitioned":
        return part.fault("no partitioned: a slidingTime window is partitioned by partition_by alone")
    if part.word in ("partitionAge", "partitionCount", "tupleCount"):
        return part.fault("no partition eviction in a timeInterval window (rule W17)" if kind == "timeInterval" else
                          "no partition eviction in a slidingTime window")  # fmt: skip
    words = [*known, "partitioned"] if kind == "timeInterval" else known
    return part.fault(f"{one_of(words)} in a {kind} window (rule W12)", nearest(part.word, words))
