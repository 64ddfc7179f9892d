"""The interpreter for the programs of proto_program.py: one compiled loop over the records of a batch.

It makes no Python objects. Each record gives a row or a fault. The contents of a record cannot affect other records,
and the time for a record is proportional to its bytes: a length is compared with the bytes that are left before it is
used, and messages that are not read are skipped as a whole.
"""
# ruff: noqa: C901, PLR0911, PLR0912, PLR0915, PLR0917, PLR1714, PLR2004, SIM109, SIM110 - a kind of field is a branch of plain comparisons

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns.kernel import kernel
from sluice.wire.json.json_grammar import is_text
from sluice.wire.protobuf.proto_program import Fault, Op, Program
from sluice.wire.varints import little

NO = -1
(
    SKIP, MESSAGE, GROUP, INT64, INT32, UINT64, UINT32, SINT64, SINT32, BOOL, ENUM, FIXED32, SFIXED32, FLOAT, FIXED64,
    SFIXED64, DOUBLE, TEXT, OPAQUE, TIME, SPAN,
) = map(int, Op)  # fmt: skip
NONE, CUT, BAD_TAG, BAD_NUMBER, BAD_TEXT, DEPTH, BAD_GROUP, WIRE, MISSING, RANGE = map(int, Fault)
#: wire types
VARINT, EIGHT, BYTES, START, STOP, FOUR = range(6)
LONG_MOST = 2**63 - 1
SECOND = 1_000_000_000
LAST_SECOND = LONG_MOST // SECOND - 1
#: the deepest nesting of groups that are skipped
GROUPS = 100
#: columns of `steps`, `slots` and `checks` (see Program)
NUMBER, OP, SLOT, SCOPE, TABLE, ATTRIBUTE, REAL, KNOWN, KNOWN_END, CLEARED, CLEARED_END = range(11)
OF_TABLE, ITEMS, PRESENT, WORD, END, WORD_THERE, END_THERE = range(7)


class Slots(NamedTuple):
    """The values. The value of slot s in row r of its table is at `base[s] + r`, if r is less than `room` of the table.

    words, reals  the values, as int64 and as float64: the same memory. A text is its start and its end in `ends`. Of a
                  list it is the number of items up to and including its own
    ends          of a time the nanoseconds beside whole seconds
    present       whether the value is there
    filled        the number of rows of each table. Rows beyond `room` are counted, but not stored
    """

    words: np.ndarray
    reals: np.ndarray
    ends: np.ndarray
    present: np.ndarray
    base: np.ndarray
    room: np.ndarray
    filled: np.ndarray


class Scratch(NamedTuple):
    """Scratch memory.

    before         the values of `filled` before the current record, to undo a record with a fault
    started        for each pair of tables: rows of the second one when the current row of the first one began
    frames         a row for each message around the current position: its end, its scope, its table, the number of its
                   group (0: it has a length)
    groups         numbers of the groups around the current position in a field that is skipped
    bits, single   one 32-bit word, as an int and as a float
    """

    before: np.ndarray
    started: np.ndarray
    frames: np.ndarray
    groups: np.ndarray
    bits: np.ndarray
    single: np.ndarray


@kernel
def scan(data: np.ndarray, starts: np.ndarray, skipped: np.ndarray, code: Program, to: Slots, scratch: Scratch,
         faults: np.ndarray) -> None:  # fmt: skip
    """Decodes each record r, which is `data[starts[r] + skipped[r]:starts[r + 1]]`.

    `faults[0, r]` becomes the fault of the record, NONE if there is none; `faults[1, r]` the number of the attribute
    with the fault, NO if it belongs to no attribute; `faults[2, r]` its position in the record in bytes.
    """
    for row in range(faults.shape[1]):
        for table in range(len(to.filled)):
            scratch.before[table] = to.filled[table]
        fault, attribute, at = _record(data, starts[row] + skipped[row], starts[row + 1], code, to, scratch)
        faults[0, row], faults[1, row], faults[2, row] = fault, attribute, at - starts[row]
        if fault != NONE:
            for table in range(len(to.filled)):
                to.filled[table] = scratch.before[table]


@kernel
def _record(
    data: np.ndarray, i: int, stop: int, code: Program, to: Slots, scratch: Scratch
) -> tuple[int, int, int]:  # fmt: skip
    """Implements PB17 and PB18 of the reference."""
    steps, frames = code.steps, scratch.frames
    end, scope, table, group, depth = stop, 0, 0, 0, 0
    _new_row(code, to, scratch, 0)
    guess = code.scopes[0, 0]
    while True:
        if i >= end and group == 0:
            fault, attribute = _check(code, to, table) if depth == 0 or frames[depth - 1, 2] != table else (NONE, NO)
            if fault != NONE or depth == 0:
                return fault, attribute, i
            depth -= 1
            end, scope, table, group = frames[depth, 0], frames[depth, 1], frames[depth, 2], frames[depth, 3]
            guess = code.scopes[scope, 0]
            continue
        start = i
        number, wire, i, fault = _tag(data, i, end)
        if fault != NONE:
            return fault, NO, start
        if wire == STOP:
            if number != group:
                return BAD_GROUP, NO, start
            fault, attribute = _check(code, to, table) if frames[depth - 1, 2] != table else (NONE, NO)
            if fault != NONE:
                return fault, attribute, start
            depth -= 1
            end, scope, table, group = frames[depth, 0], frames[depth, 1], frames[depth, 2], frames[depth, 3]
            guess = code.scopes[scope, 0]
            continue
        step = _step(steps, code.scopes[scope, 0], code.scopes[scope, 1], guess, number)
        if step == NO:
            i, fault = _skip(data, i, end, number, wire, scratch.groups)
            if fault != NONE:
                return fault, NO, start
            continue
        guess, op, attribute = step + 1, steps[step, OP], steps[step, ATTRIBUTE]
        _clear(code, to, scratch, step, table)
        if op == SKIP:
            i, fault = _skip(data, i, end, number, wire, scratch.groups)
            if fault != NONE:
                return fault, NO, start
        elif op == MESSAGE or op == GROUP:
            if wire != (BYTES if op == MESSAGE else START):
                return WIRE, attribute, start
            inner = end
            if op == MESSAGE:
                size, i, fault = _length(data, i, end)
                if fault != NONE:
                    return fault, attribute, start
                inner = i + size
            frames[depth, 0], frames[depth, 1], frames[depth, 2], frames[depth, 3] = end, scope, table, group
            depth += 1
            end, group = inner, (0 if op == MESSAGE else number)
            if steps[step, TABLE] != NO:
                _append(code, to, scratch, steps[step, SLOT], table)
                table = steps[step, TABLE]
                scope = steps[step, SCOPE]
            else:
                scope = steps[step, SCOPE]
                _arrive(code, to, scope, steps[step, SLOT], table)
            guess = code.scopes[scope, 0]
        elif wire == BYTES and steps[step, TABLE] != NO and op < TEXT:
            size, i, fault = _length(data, i, end)
            inner = i + size
            while fault == NONE and i < inner:
                i, fault = _value(data, i, inner, code, to, scratch, step, table)
            if fault != NONE:
                return fault, attribute, start
        else:
            if wire != _wire_of(op):
                return WIRE, attribute, start
            i, fault = _value(data, i, end, code, to, scratch, step, table)
            if fault != NONE:
                return fault, attribute, start


# ---- rows and slots --------------------------------------------------------------------------------------------------


@kernel
def _new_row(code: Program, to: Slots, scratch: Scratch, table: int) -> None:
    row = to.filled[table]
    to.filled[table] = row + 1
    if len(to.filled) > 1:
        for below in range(len(to.filled)):
            if code.below[table, below]:
                scratch.started[table, below] = to.filled[below]
    if row < to.room[table]:
        for place in range(code.own[table, 0], code.own[table, 1]):
            _reset(code, to, code.listed[place], row)


@kernel
def _reset(code: Program, to: Slots, slot: int, row: int) -> None:
    """Gives the slot what it has in a new row."""
    at, items = to.base[slot] + row, code.slots[slot, ITEMS]
    to.words[at] = code.slots[slot, WORD] if items == NO else to.filled[items]
    to.ends[at] = code.slots[slot, END]
    to.present[at] = code.slots[slot, PRESENT]


@kernel
def _append(code: Program, to: Slots, scratch: Scratch, lists: int, table: int) -> None:
    """Begins an item of the list in the slot `lists`, in the current row of the table."""
    items, row = code.slots[lists, ITEMS], to.filled[table] - 1
    _new_row(code, to, scratch, items)
    if row < to.room[table]:
        to.words[to.base[lists] + row] = to.filled[items]


@kernel
def _arrive(code: Program, to: Slots, scope: int, slot: int, table: int) -> None:
    """Marks a message as present. When it first occurs, its fields without presence get their defaults (PB13)."""
    row = to.filled[table] - 1
    if row >= to.room[table] or to.present[to.base[slot] + row]:
        return
    to.present[to.base[slot] + row] = True
    for place in range(code.scopes[scope, 2], code.scopes[scope, 3]):
        implied = code.implied[place]
        at = to.base[implied] + row
        to.present[at] = True
        to.words[at], to.ends[at] = code.slots[implied, WORD_THERE], code.slots[implied, END_THERE]


@kernel
def _clear(code: Program, to: Slots, scratch: Scratch, step: int, table: int) -> None:
    """Unsets the other members of the oneof of this step (PB14)."""
    row = to.filled[table] - 1
    for place in range(code.steps[step, CLEARED], code.steps[step, CLEARED_END]):
        slot = code.cleared[place]
        items = code.slots[slot, ITEMS]
        if items != NO:
            to.filled[items] = scratch.started[table, items]
            for below in range(len(to.filled)):
                if code.below[items, below]:
                    to.filled[below] = scratch.started[table, below]
        if row < to.room[table]:
            _reset(code, to, slot, row)


@kernel
def _check(code: Program, to: Slots, table: int) -> tuple[int, int]:
    """MISSING and the attribute if the current row of the table lacks a value that must be present."""
    row = to.filled[table] - 1
    if row >= to.room[table]:
        return NONE, NO
    for place in range(len(code.checks)):
        slot, around = code.checks[place, 1], code.checks[place, 2]
        if (
            code.checks[place, 0] == table
            and not to.present[to.base[slot] + row]
            and (around == NO or to.present[to.base[around] + row])
        ):
            return MISSING, code.checks[place, 3]
    return NONE, NO


@kernel
def _step(steps: np.ndarray, first: int, behind: int, guess: int, number: int) -> int:
    """The step of the field with this number, NO if there is none. `guess` is the step that is tried first."""
    if guess < behind and steps[guess, NUMBER] == number:
        return guess
    while first < behind:
        middle = (first + behind) // 2
        if steps[middle, NUMBER] == number:
            return middle
        if steps[middle, NUMBER] < number:
            first = middle + 1
        else:
            behind = middle
    return NO


# ---- values ----------------------------------------------------------------------------------------------------------


@kernel
def _wire_of(op: int) -> int:
    if op <= ENUM:
        return VARINT
    if op <= FLOAT:
        return FOUR
    return EIGHT if op <= DOUBLE else BYTES


@kernel
def _value(
    data: np.ndarray, i: int, stop: int, code: Program, to: Slots, scratch: Scratch, step: int, table: int
) -> tuple[int, int]:  # fmt: skip
    """Reads one value of the step and stores it. Returns the position behind it and the fault (PB4)."""
    op, slot, items = code.steps[step, OP], code.steps[step, SLOT], code.steps[step, TABLE]
    word, last, real, fault = 0, 0, 0.0, NONE
    is_real = code.steps[step, REAL] != 0
    if op == TEXT or op == OPAQUE:
        size, i, fault = _length(data, i, stop)
        if fault == NONE and op == TEXT and not is_text(data, i, i + size):
            fault = BAD_TEXT
        word, last = i, i + size
        if fault == NONE:
            i += size
    elif op == DOUBLE or op == SFIXED64 or op == FIXED64:
        word, i, fault = little(data, i, stop, 8)
        if op == FIXED64 and word < 0:
            if is_real:
                real = float(np.uint64(word))
            else:
                fault = RANGE
        elif is_real:
            real = float(word)
    elif op == FLOAT:
        word, i, fault = little(data, i, stop, 4)
        scratch.bits[0] = np.uint32(word)
        real, is_real = float(scratch.single[0]), True
    elif op == FIXED32 or op == SFIXED32:
        word, i, fault = little(data, i, stop, 4)
        if op == SFIXED32:
            word = _signed(word)
        real = float(word)
    elif op == TIME or op == SPAN:
        size, i, fault = _length(data, i, stop)
        if fault == NONE:
            row, has_seconds = to.filled[table] - 1, False
            if items == NO and row < to.room[table]:
                has_seconds = to.present[to.base[slot] + row] and to.ends[to.base[slot] + row] >= -SECOND
            nanos = to.ends[to.base[slot] + row] if has_seconds else 0
            seconds = (to.words[to.base[slot] + row] - nanos) // SECOND if has_seconds else 0
            word, last, fault = _time(data, i, i + size, op, seconds, nanos, scratch.groups)
            i += size
    else:
        bits, i, fault = _varint(data, i, stop)
        word = np.int64(bits)  # type: ignore[assignment]
        if op == INT32 or op == ENUM:
            word = _signed(word & 0xFFFFFFFF)
        elif op == UINT32:
            word &= 0xFFFFFFFF
        elif op == SINT64:
            word = np.int64(bits >> np.uint64(1)) ^ -np.int64(bits & np.uint64(1))  # type: ignore[assignment]
        elif op == SINT32:
            word &= 0xFFFFFFFF
            word = (word >> 1) ^ -(word & 1)
        elif op == BOOL:
            word = 1 if bits else 0
        real = float(bits) if op == UINT64 else float(word)
        if op == UINT64 and word < 0 and not is_real:
            fault = RANGE
        if op == ENUM and not _is_known(code, step, word):
            return i, fault
    if fault != NONE:
        return i, fault
    if items != NO:
        _append(code, to, scratch, code.steps[step, SCOPE], table)
    row = to.filled[items if items != NO else table] - 1
    if row < to.room[items if items != NO else table]:
        at = to.base[slot] + row
        if is_real:
            to.reals[at] = real
        else:
            to.words[at] = word
        to.ends[at] = last
        to.present[at] = True
    return i, NONE


@kernel
def _is_known(code: Program, step: int, number: int) -> bool:
    """Whether an enum has this number; an open one has all (PB15)."""
    first, behind = code.steps[step, KNOWN], code.steps[step, KNOWN_END]
    if first == behind:
        return True
    for place in range(first, behind):
        if code.known[place] == number:
            return True
    return False


@kernel
def _signed(word: int) -> int:
    """The number whose 32 bits are these."""
    return word - 0x100000000 if word >= 0x80000000 else word


@kernel
def _time(
    data: np.ndarray, i: int, stop: int, op: int, seconds: int, nanos: int, groups: np.ndarray
) -> tuple[int, int, int]:  # fmt: skip
    """Reads a Timestamp or a Duration. Returns all in nanoseconds, the nanoseconds beside the seconds, and the fault.

    `seconds` and `nanos` are the values of fields that the message lacks.
    """
    while i < stop:
        number, wire, i, fault = _tag(data, i, stop)
        if fault != NONE:
            return 0, 0, fault
        if number <= 2 and wire != VARINT:
            return 0, 0, WIRE
        if number <= 2:
            bits, i, fault = _varint(data, i, stop)
            if number == 1:
                seconds = np.int64(bits)  # type: ignore[assignment]
            else:
                nanos = _signed(np.int64(bits) & 0xFFFFFFFF)  # type: ignore[arg-type]
        else:
            i, fault = _skip(data, i, stop, number, wire, groups)
        if fault != NONE:
            return 0, 0, fault
    if not -LAST_SECOND <= seconds <= LAST_SECOND or not (0 if op == TIME else -SECOND) <= nanos < SECOND:
        return 0, 0, RANGE
    return seconds * SECOND + nanos, nanos, NONE


# ---- the wire format -------------------------------------------------------------------------------------------------


@kernel
def _tag(data: np.ndarray, i: int, stop: int) -> tuple[int, int, int, int]:
    """Reads a tag. Returns the number of the field, the wire type, the position behind it, the fault."""
    bits, first = np.uint64(0), i
    while i < stop:
        byte = np.uint64(data[i])
        bits |= (byte & np.uint64(0x7F)) << np.uint64(7 * (i - first))
        i += 1
        if byte < np.uint64(0x80):
            tag = np.int64(bits)
            good = 8 <= tag < 0x100000000 and (tag & 7) <= FOUR
            return tag >> 3, tag & 7, i, NONE if good else BAD_TAG  # type: ignore[return-value]
        if i - first == 5:
            return 0, 0, i, BAD_TAG
    return 0, 0, i, CUT


@kernel
def _varint(data: np.ndarray, i: int, stop: int) -> tuple[np.uint64, int, int]:
    """Reads a number of at most ten bytes, of which 64 bits count. Returns its bits, the position, the fault."""
    bits, shift = np.uint64(0), 0
    while i < stop:
        byte = np.uint64(data[i])
        bits |= (byte & np.uint64(0x7F)) << np.uint64(shift)
        i += 1
        if byte < np.uint64(0x80):
            return bits, i, NONE
        shift += 7
        if shift == 70:
            return np.uint64(0), i, BAD_NUMBER
    return np.uint64(0), i, CUT


@kernel
def _length(data: np.ndarray, i: int, stop: int) -> tuple[int, int, int]:
    """Reads a length. Without a fault, so many bytes follow before `stop`. Returns length, position, fault."""
    bits, i, fault = _varint(data, i, stop)
    if fault == NONE and bits > np.uint64(stop - i):
        fault = CUT
    return (np.int64(bits) if fault == NONE else 0), i, fault  # type: ignore[return-value]


@kernel
def _skip(data: np.ndarray, i: int, stop: int, number: int, wire: int, groups: np.ndarray) -> tuple[int, int]:
    """Skips the value of a field. Returns the position behind it and the fault (PB3)."""
    if wire == STOP:
        return i, BAD_GROUP
    if wire != START:
        return _skip_plain(data, i, stop, wire)
    depth = 0
    groups[0] = number
    while depth >= 0:
        number, wire, i, fault = _tag(data, i, stop)
        if fault != NONE:
            return i, fault
        if wire == START:
            depth += 1
            if depth == len(groups):
                return i, DEPTH
            groups[depth] = number
        elif wire == STOP:
            if groups[depth] != number:
                return i, BAD_GROUP
            depth -= 1
        else:
            i, fault = _skip_plain(data, i, stop, wire)
            if fault != NONE:
                return i, fault
    return i, NONE


@kernel
def _skip_plain(data: np.ndarray, i: int, stop: int, wire: int) -> tuple[int, int]:
    if wire == VARINT:
        _, i, fault = _varint(data, i, stop)
        return i, fault
    size, fault = (4 if wire == FOUR else 8), NONE
    if wire == BYTES:
        size, i, fault = _length(data, i, stop)
    if fault == NONE and size > stop - i:
        fault = CUT
    return (i + size if fault == NONE else i), fault
