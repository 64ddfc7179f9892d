"""The window clause, in SPL's words (reference section 2): `sliding, time(300.0), count(1), partitioned`.

clause   kind, policy [, policy] [, partitioned]      the parts may stand in any order (W13)
kind     tumbling | sliding                           without one: one policy tumbles, two slide (W4)
policy   count(n) | time(seconds) | delta(attribute, size) | punct()
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal

from service.pipeline.errors import Fault, nearest
from service.pipeline.spec import Count, Punct, Time

KINDS = ("tumbling", "sliding")
POLICIES = {"count": "count(n)", "time": "time(seconds)", "delta": "delta(attribute, size)", "punct": "punct()"}
#: known to SPL or KIP-450, not to this version
LATER = (
    "timeInterval", "intervalDuration", "creationPeriod", "discardAge", "intervalOffset",
    "slidingTime", "timeDifference", "grace", "partitionAge", "partitionCount", "tupleCount",
)  # fmt: skip
MOST_TUPLES = 2**32 - 1
NANOSECONDS = 10**9
MOST_SECONDS = Decimal(2**63 - 1) / NANOSECONDS

PART = re.compile(r"\s*(?P<text>(?P<word>[^\W\d]\w*)\s*(?P<call>\((?P<arguments>[^()]*)\))?)\s*")
NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d{1,3})?")
INTEGER = re.compile(r"[-+]?\d+")


@dataclass(frozen=True, slots=True)
class Part:
    """A word of the clause, with its arguments if it is written as a call."""

    word: str
    arguments: tuple[str, ...] | None
    text: str
    column: int

    def fault(self, expected: str, hint: str | None = None) -> Fault:
        return Fault(expected, self.text, hint, self.column)


@dataclass(frozen=True, slots=True)
class DeltaText:
    """`delta(attribute, size)`, before the attribute's type is known."""

    attribute: str
    size: str
    part: Part


Policy = Count | Time | DeltaText | Punct


@dataclass(slots=True)
class Clause:
    """What a clause says; `faults` are errors, `cautions` are not."""

    tumbling: bool = False
    partitioned: bool = False
    policies: list[tuple[Policy, Part]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    cautions: list[str] = field(default_factory=list)


def parse_clause(text: str, *, storing: bool = True) -> Clause:
    """`storing`: whether a window that keeps nothing is worth a word."""
    clause = Clause()
    parts = list(read_parts(text, clause.faults))
    for part in parts:
        take(part, clause)
    if not clause.faults:
        find_kind(parts, clause)
        check_repeats(parts, clause)
        check_punct(clause)
        if storing:
            check_zero(clause)
        check_order(parts, clause)
    return clause


# ---- words ----------------------------------------------------------------------------------------------------------


def read_parts(text: str, faults: list[Fault]) -> Iterator[Part]:
    for start, piece in split(text):
        column = start + len(piece) - len(piece.lstrip()) + 1
        if found := PART.fullmatch(piece):
            arguments = found["arguments"]
            inside = tuple(a.strip() for a in arguments.split(",") if arguments.strip()) if found["call"] else None
            yield Part(found["word"], inside, found["text"], column)
        else:
            faults.append(
                Fault("a word such as sliding, or a call such as count(5)", piece.strip() or None, None, column)
            )


def split(text: str) -> Iterator[tuple[int, str]]:
    """The pieces between the commas that stand outside of parentheses, each with its start."""
    depth = start = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            yield start, text[start:position]
            start = position + 1
    yield start, text[start:]


def take(part: Part, clause: Clause) -> None:
    if part.word in (*KINDS, "partitioned"):
        if part.arguments is not None:
            clause.faults.append(part.fault(f"{part.word} without parentheses"))
        clause.partitioned |= part.word == "partitioned"
    elif part.word in POLICIES:
        take_policy(part, clause)
    elif part.word in LATER:
        clause.faults.append(part.fault(f"a window that this version has: {part.word} is not available yet"))
    else:
        known = (*KINDS, "partitioned", *POLICIES)
        clause.faults.append(
            part.fault("tumbling, sliding, count, time, delta, punct or partitioned", near(part, known))
        )


def near(part: Part, known: tuple[str, ...]) -> str | None:
    word = nearest(part.word, known)
    return POLICIES.get(word, word) if word else None


# ---- policies -------------------------------------------------------------------------------------------------------


def take_policy(part: Part, clause: Clause) -> None:
    if part.arguments is None:
        clause.faults.append(part.fault(f"{part.word} with parentheses", POLICIES[part.word]))
        return
    read = {"count": read_count, "time": read_time, "delta": read_delta, "punct": read_punct}[part.word]
    policy = read(part)
    if isinstance(policy, Fault):
        clause.faults.append(policy)
    else:
        clause.policies.append((policy, part))


def read_count(part: Part) -> Count | Fault:
    match part.arguments:
        case (text,) if INTEGER.fullmatch(text) and 0 <= int(text) <= MOST_TUPLES:
            return Count(int(text))
        case _:
            return part.fault(f"count(n) with a whole number of tuples from 0 to {MOST_TUPLES}")


def read_time(part: Part) -> Time | Fault:
    match part.arguments:
        case (text,) if NUMBER.fullmatch(text) and 0 < Decimal(text) <= MOST_SECONDS:
            exact = Decimal(text) * NANOSECONDS
            return Time(int(exact)) if exact == int(exact) else part.fault("time(seconds) in whole nanoseconds")
        case _:
            return part.fault("time(seconds) with a number above 0")


def read_delta(part: Part) -> DeltaText | Fault:
    match part.arguments:
        case (attribute, size) if NUMBER.fullmatch(size) and Decimal(size) >= 0:
            return DeltaText(attribute, size, part)
        case _:
            return part.fault("delta(attribute, size) with the name of an attribute and a number that is not negative")


def read_punct(part: Part) -> Punct | Fault:
    return part.fault("punct() without arguments") if part.arguments else Punct()


# ---- the whole ------------------------------------------------------------------------------------------------------


def find_kind(parts: list[Part], clause: Clause) -> None:
    kinds = [part for part in parts if part.word in KINDS]
    count = len(clause.policies)
    if not kinds:
        clause.tumbling = count == 1
        word = "tumbling" if clause.tumbling else "sliding"
        clause.cautions.append(f'neither tumbling nor sliding is written; taken as "{word}" (rule W4)')
    else:
        clause.tumbling = kinds[0].word == "tumbling"
    if len({part.word for part in kinds}) > 1:
        clause.faults.append(kinds[1].fault("one of tumbling and sliding"))
    elif clause.tumbling and count != 1:
        clause.faults.append(miscounted(clause, f"one eviction policy in a tumbling window, not {count} (rule W6)", 1))
    elif not clause.tumbling and count not in (1, 2):
        what = f"an eviction policy, and perhaps a trigger policy, in a sliding window, not {count} policies (rule W7)"
        clause.faults.append(miscounted(clause, what, 2))


def miscounted(clause: Clause, expected: str, allowed: int) -> Fault:
    extra = clause.policies[allowed:]
    return extra[0][1].fault(expected) if extra else Fault(expected)


def check_repeats(parts: list[Part], clause: Clause) -> None:
    seen: set[str] = set()
    for part in parts:
        if part.word in seen and part.word not in POLICIES:
            clause.faults.append(part.fault(f"{part.word} only once"))
        seen.add(part.word)


def check_punct(clause: Clause) -> None:
    """SPL takes punct() in a sliding window and then fails at start (W21) or puts count(1) in its place (W22, W23)."""
    for policy, part in clause.policies:
        if isinstance(policy, Punct) and not clause.tumbling:
            clause.faults.append(part.fault("count, time or delta in a sliding window (rules W21 to W23)"))


def check_zero(clause: Clause) -> None:
    effects = TUMBLING_ZERO if clause.tumbling else SLIDING_ZERO
    for (policy, _), effect in zip(clause.policies, effects, strict=False):
        if policy == Count(0):
            clause.cautions.append(effect)


TUMBLING_ZERO = ["count(0) ignores every tuple; nothing ever comes out (rule T3)"]
SLIDING_ZERO = [
    "count(0) as eviction keeps no tuple; at most lone marks come out (rule S9)",
    "count(0) as trigger never fires; nothing ever comes out (rule S10)",
]


def check_order(parts: list[Part], clause: Clause) -> None:
    ranks = [0 if part.word in KINDS else 2 if part.word == "partitioned" else 1 for part in parts]
    if ranks != sorted(ranks):
        text = ", ".join(part.text for _, part in sorted(zip(ranks, parts, strict=True), key=lambda pair: pair[0]))
        clause.cautions.append(f'the usual order is "{text}" (rule W13)')
