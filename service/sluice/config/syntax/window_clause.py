"""Parses the window clause, in SPL's words (reference section 2): `sliding, time(300.0), count(1), partitioned`.

clause   kind, policy [, policy] [, partitioned [, leaving]]   the parts may stand in any order (W13)
         or one of a word and sized parts (sized_clause.py)
kind     tumbling | sliding | table                            without one: one policy tumbles, two slide (W4)
policy   count(n) | time(seconds) | delta(attribute, size) | punct()
         a tumbling window may have several of different kinds, with the word `or` between them
leaving  partitionAge(seconds) | partitionCount(n) | tupleCount(n)

Seconds are a number or a duration with a unit, `5m` (durations.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import NamedTuple

from sluice.config.syntax.clause_parts import Part, read_parts
from sluice.config.syntax.other_systems import clause_of_another_system, policy_of_another_system
from sluice.config.syntax.sized_clause import PARTS, Sizes, read_sizes
from sluice.model.errors import Fault, nearest, one_of
from sluice.model.windows.kinds import KINDS as ALL_KINDS
from sluice.model.windows.kinds import SIZED
from sluice.model.windows.policies.partition_policies import PARTITION_EVICTIONS, PartitionEviction
from sluice.model.windows.policies.policy import Input, Mistyped, Policy, Role
from sluice.model.windows.policies.policy_table import POLICIES
from sluice.model.windows.table_window import TableWindow
from sluice.model.windows.window_kind import WindowKind

#: the kinds whose clauses have policies
KINDS = tuple(word for word in ALL_KINDS if word not in SIZED)
#: the word of a policy -> the policy as messages spell it
FORMS = {word: policy.form for word, policy in POLICIES.items()} | {
    word: policy.form for word, policy in PARTITION_EVICTIONS.items()
}
#: the words of all clauses
WORDS = (*KINDS, *SIZED, *POLICIES, "partitioned", *PARTITION_EVICTIONS, *PARTS)


class ParsedPolicy(NamedTuple):
    """A policy of the clause. `policy` is None if its attributes are missing in the input or have wrong types."""

    kind: type[Policy]
    policy: Policy | None
    part: Part


@dataclass(slots=True)
class ParsedClause:
    """The contents of a clause. `faults` are errors of its form, `mistyped` are errors about attributes of the input;
    `cautions` are warnings.
    """

    tumbling: bool = False
    #: whether the window has the rows of a table, and so no eviction policy
    whole: bool = False
    partitioned: bool = False
    policies: list[ParsedPolicy] = field(default_factory=list)
    #: of a window whose kind has sized parts, and no policies
    sizes: Sizes | None = None
    leaving: list[tuple[PartitionEviction, Part]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    mistyped: list[Fault] = field(default_factory=list)
    cautions: list[str] = field(default_factory=list)

    @property
    def kind(self) -> type[WindowKind]:
        """The kind of the window. Defined only if the clause has no faults."""
        word = TableWindow.word if self.whole else "tumbling" if self.tumbling else "sliding"
        return self.sizes.kind if self.sizes is not None else ALL_KINDS[word]


def parse_clause(text: str, input_: Input | None = None, *, storing: bool = True) -> ParsedClause:
    """Parses a window clause. `input_`: the input of the operator, None if it is unknown. `storing`: whether a window
    that stores no tuples gets a warning.
    """
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
        add_part(part, clause, input_)
    if not clause.faults:
        find_kind(parts, clause)
        check_repeats(parts, clause)
        check_roles(clause)
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


def add_part(part: Part, clause: ParsedClause, input_: Input | None) -> None:
    """Adds a part to the clause: a kind or `partitioned`, which is a word, or a policy, which has parentheses (W10)."""
    if part.word in (*KINDS, "partitioned"):
        if part.arguments is not None:
            clause.faults.append(part.fault(f"{part.word} without parentheses"))
        clause.partitioned |= part.word == "partitioned"
    elif part.word in FORMS:
        take_policy(part, clause, input_)
    elif part.word in PARTS:
        clause.faults.append(part.fault(f"{part.word} only in a {one_of(PARTS[part.word])} window (rule W12)"))
    elif other := policy_of_another_system(part.word):
        clause.faults.append(part.fault(other))
    else:
        usual = (*KINDS, *POLICIES, "partitioned", *PARTITION_EVICTIONS)
        clause.faults.append(part.fault(f"{', '.join(usual[:-1])} or {usual[-1]}", near(part, WORDS)))


def near(part: Part, words: tuple[str, ...]) -> str | None:
    word = nearest(part.word, words)
    return FORMS.get(word, word) if word else None


# ---- policies -------------------------------------------------------------------------------------------------------


def take_policy(part: Part, clause: ParsedClause, input_: Input | None) -> None:
    if part.arguments is None:
        clause.faults.append(part.fault(f"{part.word} with parentheses", FORMS[part.word]))
    elif part.word in POLICIES:
        take_policy_of_tuples(POLICIES[part.word], part, clause, input_)
    elif isinstance(leaving := PARTITION_EVICTIONS[part.word].read(part), Fault):
        clause.faults.append(leaving)
    else:
        clause.leaving.append((leaving, part))


def take_policy_of_tuples(kind: type[Policy], part: Part, clause: ParsedClause, input_: Input | None) -> None:
    match kind.read(part, input_):
        case Fault() as fault:
            clause.faults.append(fault)
        case Mistyped(faults):
            clause.mistyped += faults
            clause.policies.append(ParsedPolicy(kind, None, part))
        case policy:
            clause.policies.append(ParsedPolicy(kind, policy, part))


def read_early(text: str) -> tuple[list[Policy], list[Fault]]:
    """The policies of `early`, count(n) and time(seconds) with the word `or` between them, and the faults."""
    expected = "count(n) or time(seconds), as in count(1000) or time(10)"
    faults: list[Fault] = []
    policies: list[Policy] = []
    parts = list(read_parts(text, faults))
    faults = [replace(fault, expected=expected) for fault in faults]
    for index, part in enumerate(parts):
        policy = POLICIES[part.word].read_early(part) if part.word in POLICIES and part.arguments is not None else None
        if part.alternative != (index > 0):
            faults.append(part.fault("the word or between two policies, as in count(1000) or time(10)"))
        elif part.word in [other.word for other in parts[:index]]:
            faults.append(part.fault(f"{part.word} only once"))
        elif isinstance(policy, Fault):
            faults.append(policy)
        elif policy is not None:
            policies.append(policy)
        else:
            word = nearest(part.word, ("count", "time"))
            meant = f"{word}({', '.join(part.arguments)})" if word and part.arguments is not None else None
            faults.append(part.fault(expected, meant))
    return policies, faults


# ---- the whole ------------------------------------------------------------------------------------------------------


def find_kind(parts: list[Part], clause: ParsedClause) -> None:
    kinds = [part for part in parts if part.word in KINDS]
    count = len([part for *_, part in clause.policies if not part.alternative])
    if not kinds:
        clause.tumbling = count == 1
        word = "tumbling" if clause.tumbling else "sliding"
        clause.cautions.append(f'neither tumbling nor sliding is written; taken as "{word}" (rule W4)')
    else:
        clause.tumbling = kinds[0].word == "tumbling"
        clause.whole = kinds[0].word == TableWindow.word
    if len({part.word for part in kinds}) > 1:
        clause.faults.append(kinds[1].fault(f"one of {', '.join(KINDS[:-1])} and {KINDS[-1]}"))
    elif wrong := wrong_alternative(parts, clause):
        clause.faults.append(wrong)
    elif clause.whole:
        if count > 1:
            expected = "at most a trigger policy in a window over a table, which has all rows (rule EN10)"
            clause.faults.append(clause.policies[1].part.fault(expected))
    elif clause.tumbling and count != 1:
        clause.faults.append(miscounted(clause, f"one eviction policy in a tumbling window, not {count} (rule W6)", 1))
    elif not clause.tumbling and count not in (1, 2):
        expected = (
            f"an eviction policy, and perhaps a trigger policy, in a sliding window, not {count} policies (rule W7)"
        )
        clause.faults.append(miscounted(clause, expected, 2))


def wrong_alternative(parts: list[Part], clause: ParsedClause) -> Fault | None:
    """The fault if `or` is not between two policies, of different kinds, of a tumbling window (H1); else None."""
    for index, part in enumerate(parts):
        if part.alternative and (part.word not in POLICIES or parts[index - 1].word not in POLICIES):
            return part.fault("or only between two policies, as in count(100) or time(5)")
        if part.alternative and not clause.tumbling:
            return part.fault("or only in a tumbling window, as in tumbling, count(100) or time(5)")
    words = [part.word for *_, part in clause.policies]
    repeated = next((part for n, (*_, part) in enumerate(clause.policies) if part.word in words[:n]), None)
    if repeated is not None and repeated.alternative:
        return repeated.fault("policies of different kinds, as in count(100) or time(5)")
    return None


def miscounted(clause: ParsedClause, expected: str, allowed: int) -> Fault:
    extra = clause.policies[allowed:]
    return extra[0].part.fault(expected) if extra else Fault(expected)


def check_repeats(parts: list[Part], clause: ParsedClause) -> None:
    seen: set[str] = set()
    for part in parts:
        if part.word in seen and part.word not in FORMS:
            clause.faults.append(part.fault(f"{part.word} only once"))
        seen.add(part.word)


def by_role(clause: ParsedClause) -> Iterator[tuple[Policy, Role, Part]]:
    """The policies with what they do and where they stand, without those of wrong types."""
    sliding_roles: tuple[Role, ...] = ("trigger",) if clause.whole else ("evict", "trigger")
    roles: Iterable[Role] = repeat("flush") if clause.tumbling else sliding_roles
    for (_, policy, part), role in zip(clause.policies, roles, strict=False):
        if policy is not None:
            yield policy, role, part


def check_roles(clause: ParsedClause) -> None:
    """Checks that a sliding window accepts its policies (W21 to W23)."""
    for policy, role, part in by_role(clause):
        if expected := policy.instead(role):
            clause.faults.append(part.fault(expected))


def check_leaving(clause: ParsedClause) -> None:
    """Checks that there is at most one partition eviction, and only in a partitioned window (W11)."""
    for _, part in clause.leaving[1:]:
        clause.faults.append(part.fault("at most one of partitionAge, partitionCount and tupleCount (rule W11)"))
    for _, part in clause.leaving[:1]:
        if not clause.partitioned:
            clause.faults.append(part.fault(f"partitioned in the window clause, as it has {part.word} (rule W11)"))


def check_zero(clause: ParsedClause) -> None:
    """Warns of sizes of 0, by their effect. Negative sizes are faults, which were found before (W25)."""
    cautions = [policy.caution(role) for policy, role, _ in by_role(clause)]
    cautions += [f"{part.text} {text}" for leaving, part in clause.leaving if (text := leaving.caution(part))]
    clause.cautions += filter(None, cautions)


def check_order(parts: list[Part], clause: ParsedClause) -> None:
    ranks = [rank(part) for part in parts]
    if ranks != sorted(ranks):
        text = ", ".join(part.text for _, part in sorted(zip(ranks, parts, strict=True), key=lambda pair: pair[0]))
        clause.cautions.append(f'the usual order is "{text}" (rule W13)')


def rank(part: Part) -> int:
    """The position of a part in the usual order of a clause: kind, policies, `partitioned`, partition eviction."""
    if part.word in KINDS:
        return 0
    return 2 if part.word == "partitioned" else 3 if part.word in PARTITION_EVICTIONS else 1
