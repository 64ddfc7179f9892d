"""Parses the window clause, in SPL's words (reference section 2): `sliding, time(300.0), count(1), partitioned`.

clause   kind, policy [, policy] [, partitioned [, leaving]]   the parts may stand in any order (W13)
         or one of a word and sized parts (sized_clause.py)
kind     tumbling | sliding                                    without one: one policy tumbles, two slide (W4)
policy   count(n) | time(seconds) | delta(attribute, size) | punct()
         a tumbling window may have several of different kinds, with the word `or` between them
leaving  partitionAge(seconds) | partitionCount(n) | tupleCount(n)

Seconds are a number or a duration with a unit, `5m` (durations.py).
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field, replace
from decimal import Decimal

from sluice.config.syntax.clause_parts import INTEGER, MAX_SECONDS, Part, read_parts
from sluice.config.syntax.durations import EXAMPLES, seconds
from sluice.config.syntax.other_systems import clause_of_another_system, policy_of_another_system
from sluice.config.syntax.sized_clause import PARTS, PERIODS, Sizes, read_sizes
from sluice.model.errors import Fault, nearest, one_of
from sluice.model.spec import Aligned, Count, PartitionAge, PartitionCount, PartitionEviction, Punct, Time, TupleCount
from sluice.model.windows.kinds import KINDS as ALL_KINDS
from sluice.model.windows.kinds import SIZED
from sluice.model.windows.window_kind import WindowKind
from sluice.model.windows.window_policies import CALENDAR
from sluice.time_units import SECOND

#: the kinds whose clauses have policies
KINDS = tuple(word for word in ALL_KINDS if word not in SIZED)
POLICIES = {"count": "count(n)", "time": "time(seconds)", "delta": "delta(attribute, size)", "punct": "punct()"}
LEAVING = {
    "partitionAge": "partitionAge(seconds)", "partitionCount": "partitionCount(n)", "tupleCount": "tupleCount(n)",
}  # fmt: skip
MAX_COUNT = 2**32 - 1
#: the longest wait for an early result, in seconds: 3,650 days (F2)
MAX_WAIT = Decimal(3_650 * 86_400)
#: the words of all clauses
WORDS = (*KINDS, *SIZED, *POLICIES, "partitioned", *LEAVING, *PARTS)


@dataclass(frozen=True, slots=True)
class DeltaText:
    """`delta(attribute, size)`, before the attribute's type is known."""

    attribute: str
    size: str
    part: Part


Policy = Count | Time | DeltaText | Punct


@dataclass(slots=True)
class ParsedClause:
    """The contents of a clause. `faults` are errors; `cautions` are warnings."""

    tumbling: bool = False
    partitioned: bool = False
    policies: list[tuple[Policy, Part]] = field(default_factory=list)
    #: of a window whose kind has sized parts, and no policies
    sizes: Sizes | None = None
    leaving: list[tuple[PartitionEviction, Part]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    cautions: list[str] = field(default_factory=list)

    @property
    def kind(self) -> type[WindowKind]:
        """The kind of the window. Defined only if the clause has no faults."""
        return self.sizes.kind if self.sizes is not None else ALL_KINDS["tumbling" if self.tumbling else "sliding"]


def parse_clause(text: str, *, storing: bool = True) -> ParsedClause:
    """Parses a window clause. `storing`: whether a window that stores no tuples gets a warning."""
    clause = ParsedClause()
    if fault := clause_of_another_system(text):
        clause.faults.append(fault)
        return clause
    parts = [corrected(part, clause) for part in read_parts(text, clause.faults)]
    if any(part.word in SIZED for part in parts):
        clause.partitioned = any(part.word == "partitioned" for part in parts)
        clause.sizes = read_sizes(parts, clause.faults)
        return clause
    for part in parts:
        add_part(part, clause)
    if not clause.faults:
        find_kind(parts, clause)
        check_repeats(parts, clause)
        check_punct(clause)
        check_calendar(clause)
        check_leaving(clause)
        if storing:
            check_zero(clause)
        check_order(parts, clause)
    return clause


# ---- words ----------------------------------------------------------------------------------------------------------


def corrected(part: Part, clause: ParsedClause) -> Part:
    """The part. If it is the misspelled word of a kind of window, reports that, and returns the part with the right
    word, so that the sizes behind it are read as those of the kind.
    """
    meant = None if part.word in WORDS or part.arguments is not None else nearest(part.word, WORDS)
    if meant is None or meant not in SIZED:
        return part
    clause.faults.append(part.fault(f"{one_of(ALL_KINDS)} as kind of window", meant))
    return replace(part, word=meant, text=meant)


def add_part(part: Part, clause: ParsedClause) -> None:
    """Adds a part to the clause: a kind or `partitioned`, which is a word, or a policy, which has parentheses (W10)."""
    if part.word in (*KINDS, "partitioned"):
        if part.arguments is not None:
            clause.faults.append(part.fault(f"{part.word} without parentheses"))
        clause.partitioned |= part.word == "partitioned"
    elif part.word in POLICIES or part.word in LEAVING:
        take_policy(part, clause)
    elif part.word in PARTS:
        clause.faults.append(part.fault(f"{part.word} only in a {one_of(PARTS[part.word])} window (rule W12)"))
    elif other := policy_of_another_system(part.word):
        clause.faults.append(part.fault(other))
    else:
        usual = (*KINDS, *POLICIES, "partitioned", *LEAVING)
        clause.faults.append(part.fault(f"{', '.join(usual[:-1])} or {usual[-1]}", near(part, WORDS)))


def near(part: Part, known: tuple[str, ...]) -> str | None:
    word = nearest(part.word, known)
    return (POLICIES | LEAVING).get(word, word) if word else None


# ---- policies -------------------------------------------------------------------------------------------------------


def take_policy(part: Part, clause: ParsedClause) -> None:
    if part.arguments is None:
        clause.faults.append(part.fault(f"{part.word} with parentheses", (POLICIES | LEAVING)[part.word]))
        return
    policy = READ[part.word](part)
    if isinstance(policy, Fault):
        clause.faults.append(policy)
    elif isinstance(policy, PartitionAge | PartitionCount | TupleCount):
        clause.leaving.append((policy, part))
    else:
        clause.policies.append((policy, part))


def read_count(part: Part) -> Count | Fault:
    count = whole(part)
    return (
        part.fault(f"count(n) with a whole number of tuples from 0 to {MAX_COUNT}") if count is None else Count(count)
    )


def read_early(text: str) -> tuple[list[Count | Time], list[Fault]]:
    """The policies of `early`, count(n) and time(seconds) with the word `or` between them, and the faults."""
    expected = "count(n) or time(seconds), as in count(1000) or time(10)"
    faults: list[Fault] = []
    found: list[Count | Time] = []
    parts = list(read_parts(text, faults))
    faults = [replace(fault, expected=expected) for fault in faults]
    for index, part in enumerate(parts):
        policy = READ_EARLY[part.word](part) if part.word in READ_EARLY and part.arguments is not None else None
        if part.alternative != (index > 0):
            faults.append(part.fault("the word or between two policies, as in count(1000) or time(10)"))
        elif part.word in [other.word for other in parts[:index]]:
            faults.append(part.fault(f"{part.word} only once"))
        elif isinstance(policy, Fault):
            faults.append(policy)
        elif isinstance(policy, Count | Time):
            found.append(policy)
        else:
            faults.append(part.fault(expected))
    return found, faults


def read_early_count(part: Part) -> Count | Fault:
    """The number of tuples of an early result, which is above 0 (F1)."""
    count = whole(part)
    return Count(count) if count else part.fault(f"count(n) with a whole number of tuples from 1 to {MAX_COUNT}")


def read_early_time(part: Part) -> Time | Fault:
    """The wait of an early result (F2)."""
    policy = read_time(part, MAX_WAIT, "3,650 days", ())
    if part.arguments in PERIODS:
        return part.fault("time(seconds), as the length of a calendar period varies")
    return policy


def whole(part: Part) -> int | None:
    match part.arguments:
        case (text,) if INTEGER.fullmatch(text) and 0 <= Decimal(text) <= MAX_COUNT:
            return int(text)
        case _:
            return None


def read_time(
    part: Part, most: Decimal = MAX_SECONDS, limit: str = "292 years", calendar: Container[str] = CALENDAR
) -> Time | Fault:
    """A time policy: exact whole nanoseconds (C6), or one of these periods of the calendar (Y1). `limit` is `most`, the
    greatest number of seconds, in words.
    """
    match part.arguments:
        case (text,) if text in calendar:
            months, days = CALENDAR[text]
            return Time(days * 86_400 * SECOND, Aligned(0, "UTC", months=months))
        case (text,) if (given := seconds(text)) is not None and 0 < given <= most:
            exact = given * SECOND
            return Time(int(exact)) if exact == int(exact) else part.fault("time(seconds) in whole nanoseconds")
        case _:
            expected = f"time(seconds) with a number above 0, at most {limit}, such as {EXAMPLES}"
            return part.fault(expected, part.spelled_here(calendar))


def read_delta(part: Part) -> DeltaText | Fault:
    match part.arguments:
        case (attribute, size) if size and ((given := seconds(size)) is None or given >= 0):
            return DeltaText(attribute, size, part)
        case _:
            what = "the name of an attribute, and a number that is not negative or an expression"
            return part.fault(f"delta(attribute, size) with {what}")


def read_punct(part: Part) -> Punct | Fault:
    return part.fault("punct() without arguments") if part.arguments else Punct()


def read_age(part: Part) -> PartitionAge | Fault:
    match part.arguments:
        case (text,) if (given := seconds(text)) is not None and 0 <= given <= MAX_SECONDS:
            return PartitionAge(int(given))  # V6
        case _:
            expected = f"partitionAge(seconds) with a number that is not negative, such as {EXAMPLES}"
            return part.fault(expected, part.spelled_here())


def read_most(part: Part) -> PartitionCount | TupleCount | Fault:
    most, of = whole(part), "partitions" if part.word == "partitionCount" else "tuples"
    if most is None:
        return part.fault(f"{LEAVING[part.word]} with a whole number of {of} from 0 to {MAX_COUNT}")
    return PartitionCount(most) if of == "partitions" else TupleCount(most)


READ: dict[str, Callable[[Part], Policy | PartitionEviction | Fault]] = {
    "count": read_count, "time": read_time, "delta": read_delta, "punct": read_punct,
    "partitionAge": read_age, "partitionCount": read_most, "tupleCount": read_most,
}  # fmt: skip
READ_EARLY: dict[str, Callable[[Part], Count | Time | Fault]] = {"count": read_early_count, "time": read_early_time}


# ---- the whole ------------------------------------------------------------------------------------------------------


def find_kind(parts: list[Part], clause: ParsedClause) -> None:
    kinds = [part for part in parts if part.word in KINDS]
    count = len([part for _, part in clause.policies if not part.alternative])
    if not kinds:
        clause.tumbling = count == 1
        word = "tumbling" if clause.tumbling else "sliding"
        clause.cautions.append(f'neither tumbling nor sliding is written; taken as "{word}" (rule W4)')
    else:
        clause.tumbling = kinds[0].word == "tumbling"
    if len({part.word for part in kinds}) > 1:
        clause.faults.append(kinds[1].fault("one of tumbling and sliding"))
    elif wrong := wrong_alternative(parts, clause):
        clause.faults.append(wrong)
    elif clause.tumbling and count != 1:
        clause.faults.append(miscounted(clause, f"one eviction policy in a tumbling window, not {count} (rule W6)", 1))
    elif not clause.tumbling and count not in (1, 2):
        what = f"an eviction policy, and perhaps a trigger policy, in a sliding window, not {count} policies (rule W7)"
        clause.faults.append(miscounted(clause, what, 2))


def wrong_alternative(parts: list[Part], clause: ParsedClause) -> Fault | None:
    """The fault if `or` is not between two policies, of different kinds, of a tumbling window (H1); else None."""
    for index, part in enumerate(parts):
        if part.alternative and (part.word not in POLICIES or parts[index - 1].word not in POLICIES):
            return part.fault("or only between two policies, as in count(100) or time(5)")
        if part.alternative and not clause.tumbling:
            return part.fault("or only in a tumbling window, as in tumbling, count(100) or time(5)")
    words = [part.word for _, part in clause.policies]
    again = next((part for n, (_, part) in enumerate(clause.policies) if part.word in words[:n]), None)
    if again is not None and again.alternative:
        return again.fault("policies of different kinds, as in count(100) or time(5)")
    return None


def miscounted(clause: ParsedClause, expected: str, allowed: int) -> Fault:
    extra = clause.policies[allowed:]
    return extra[0][1].fault(expected) if extra else Fault(expected)


def check_repeats(parts: list[Part], clause: ParsedClause) -> None:
    seen: set[str] = set()
    for part in parts:
        if part.word in seen and part.word not in POLICIES and part.word not in LEAVING:
            clause.faults.append(part.fault(f"{part.word} only once"))
        seen.add(part.word)


def check_punct(clause: ParsedClause) -> None:
    """Checks that a sliding window has no punct(), which SPL accepts and fails with (W21) or replaces by count(1) (W22,
    W23).
    """
    for policy, part in clause.policies:
        if isinstance(policy, Punct) and not clause.tumbling:
            clause.faults.append(part.fault("count, time or delta in a sliding window (rules W21 to W23)"))


def check_calendar(clause: ParsedClause) -> None:
    """Checks that a sliding window does not evict by a period of the calendar, whose length varies."""
    for policy, part in clause.policies[:1]:
        if isinstance(policy, Time) and policy.aligned is not None and not clause.tumbling:
            clause.faults.append(part.fault("time(seconds) as eviction, as the length of a calendar period varies"))


def check_leaving(clause: ParsedClause) -> None:
    """Checks that there is at most one partition eviction, and only in a partitioned window (W11)."""
    for _, part in clause.leaving[1:]:
        clause.faults.append(part.fault("at most one of partitionAge, partitionCount and tupleCount (rule W11)"))
    for _, part in clause.leaving[:1]:
        if not clause.partitioned:
            clause.faults.append(part.fault(f"partitioned in the window clause, as it has {part.word} (rule W11)"))


def check_zero(clause: ParsedClause) -> None:
    """Warns of sizes of 0, by their effect. Negative sizes are faults, which were found before (W25)."""
    effects = TUMBLING_ZERO if clause.tumbling else SLIDING_ZERO
    for index, (policy, _) in enumerate(clause.policies):
        if policy == Count(0):
            clause.cautions.append(effects[0 if clause.tumbling else index])
    for leaving, part in clause.leaving:
        if leaving in (PartitionCount(0), TupleCount(0)):
            clause.cautions.append(f"{part.text} evicts every tuple as soon as it is inserted (rule V10)")
        elif isinstance(leaving, PartitionAge) and seconds((part.arguments or ("0",))[0]) != leaving.seconds:
            clause.cautions.append(f"{part.text} counts whole seconds: {leaving.seconds} (rule V6)")


TUMBLING_ZERO = ["count(0) ignores every tuple; nothing ever comes out (rule T3)"]
SLIDING_ZERO = [
    "count(0) as eviction keeps no tuple; at most marks without tuples come out (rule S9)",
    "count(0) as trigger never fires; nothing ever comes out (rule S10)",
]


def check_order(parts: list[Part], clause: ParsedClause) -> None:
    ranks = [rank(part) for part in parts]
    if ranks != sorted(ranks):
        text = ", ".join(part.text for _, part in sorted(zip(ranks, parts, strict=True), key=lambda pair: pair[0]))
        clause.cautions.append(f'the usual order is "{text}" (rule W13)')


def rank(part: Part) -> int:
    """The position of a part in the usual order of a clause: kind, policies, `partitioned`, partition eviction."""
    if part.word in KINDS:
        return 0
    return 2 if part.word == "partitioned" else 3 if part.word in LEAVING else 1
