"""The invariants: what holds after each batch, before each commit and after each load, whatever the input.

A violation is a defect of Sluice. It raises InvariantError with the name of the invariant, which ends the batch before
any of its outputs is visible. The cheap invariants are always checked. The others go through the whole state or all
outputs of a batch, and are checked if the environment variable SLUICE_CHECKS is 1. `docs/state.md` has this table.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from sluice.model.errors import InvariantError

#: the environment variable that switches on all invariants
VARIABLE = "SLUICE_CHECKS"

BATCH, COMMIT, LOAD = "after each batch", "before each commit", "after each load"


class Invariant(NamedTuple):
    """An invariant: its name, the statement that holds, when and in which file it is checked, and whether always."""

    name: str
    statement: str
    when: str
    where: str
    always: bool


def _declared(when: str, where: str, statements: Mapping[str, str], *, always: bool = True) -> Iterator[Invariant]:
    """The invariants that are checked in one file. `statements`: by name."""
    return (Invariant(name, statement, when, where, always) for name, statement in statements.items())


INVARIANTS = (
    *_declared(BATCH, "state/bucket.py", {
        "version follows version": "A batch starts from the state of the version that it names.",
    }),
    *_declared(BATCH, "batch/packed_rows.py", {
        "inputs in order": "The records of a topic partition have rising ordinals, and times that do not decrease.",
    }, always=False),
    *_declared(BATCH, "state/bucket_batch.py", {
        "nothing held is late": "Each record in the reorder buffer is behind the time up to which it releases records.",
    }),
    *_declared(BATCH, "engine/graph.py", {
        "watermark never back": "The watermark of a stream is not before its watermark at the start of the batch.",
    }),
    *_declared(BATCH, "engine/graph.py", {
        "clock never back": "The operator clock at the end of a batch is not before the clock at its start.",
        "nothing held is due": "No timer is due at or before the operator clock.",
    }, always=False),
    *_declared(BATCH, "engine/windows/event_time/watermark_hold.py", {
        "no output is late": "No tuple that an operator emits is older than a watermark that it has passed on (Q7).",
    }),
    *_declared(BATCH, "engine/state_invariants.py", {
        "sizes add up": "Each number of tuples that is counted while they come and go is their number in the tables.",
        "lists are linked": "Each linked list has exactly its members, and each member refers to both neighbours.",
        "slots are used once": "A slot is free or in one list, and no slot is free twice.",
        "held in order": "Timelines, queues and the tuples of a key are in order of time.",
    }, always=False),
    *_declared(COMMIT, "kafka/batch_writer.py", {
        "offsets follow the ledger": "A batch ends, in each topic partition, at or behind the end of the batch before.",
    }),
    *_declared(COMMIT, "batch/commit.py", {
        "outputs in order": "The records of a stream are in order of time, then of the ordinal of their cause.",
        "firings are whole": "As many tuples, and as many marks, are written as the buckets have made.",
    }),
    *_declared(COMMIT, "batch/commit.py", {
        "marks are last": "No record of a stream follows its final mark.",
    }, always=False),
    *_declared(LOAD, "state/bucket.py", {
        "log versions follow": "The entries of the log have the versions that follow the snapshot, without a gap.",
    }),
    *_declared(LOAD, "columns/interner.py", {
        "columns agree": "Each interned text has its end and its hash.",
    }),
    *_declared(LOAD, "columns/interner.py", {"keys are unique": "No key is interned twice."}, always=False),
    *_declared(LOAD, "engine/state_invariants.py", {
        "rows in range": "Each field that refers to a row of a table does so inside of that table.",
        "present or null": "The word that says whether a value of an optional type is present is 0 or 1.",
    }, always=False),
)  # fmt: skip
NAMES = frozenset(invariant.name for invariant in INVARIANTS)


def all_checked() -> bool:
    """Whether the invariants that are not cheap are checked, too."""
    return os.environ.get(VARIABLE) == "1"


def violated(name: str, detail: str) -> InvariantError:
    """The error for a violation of the invariant with this name."""
    if name not in NAMES:
        raise KeyError(name)
    return InvariantError(
        f'the invariant "{name}" does not hold: {detail}; this is a defect of Sluice, please report it. No output of '
        "the batch is visible"
    )


def require(name: str, holds: object, detail: str) -> None:
    """Raises InvariantError unless `holds` is true."""
    if not holds:
        raise violated(name, detail)


# ---- invariants of plain values --------------------------------------------------------------------------------------


def require_watermarks(before: Mapping[str, int], after: Mapping[str, int]) -> None:
    """`before` and `after` have the watermarks by stream, nanoseconds since 1970. A stream without one is missing."""
    for stream, watermark in before.items():
        if after.get(stream, watermark - 1) < watermark:
            raise violated("watermark never back", f"stream {stream} was at {watermark}, and is at {after.get(stream)}")


def require_offsets(before: Mapping[tuple[str, int], int], after: Mapping[tuple[str, int], int]) -> None:
    """`before` and `after` have the end offsets of two batches by topic and topic partition."""
    for (topic, partition), offset in before.items():
        if after.get((topic, partition), -1) < offset:
            raise violated(
                "offsets follow the ledger",
                f"topic {topic}, topic partition {partition}: the batch before ends at offset {offset}, this one at "
                f"{after.get((topic, partition))}",
            )


def require_rising(name: str, subject: str, major: np.ndarray, minor: np.ndarray) -> None:
    """Raises InvariantError unless the pairs (major[i], minor[i]) never decrease."""
    steps = major[1:] - major[:-1]
    wrong = (steps < 0) | ((steps == 0) & (minor[1:] < minor[:-1]))
    if wrong.any():
        row = int(wrong.argmax()) + 1
        raise violated(name, f"{subject}: row {row} ({major[row]}, {minor[row]}) is before row {row - 1}")
