"""The interpreter for the programs of avro_program.py: one compiled loop over the records of a batch.

It makes no Python objects and reads each byte once. Each record gives a tuple or a fault. The contents of a record
cannot affect other records, and the time for a record is proportional to its bytes.
"""
# ruff: noqa: C901, PLR0912, PLR0915, PLR0917, PLR1714, PLR2004, SIM109, SIM110 - an instruction is a branch of plain comparisons

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.columns.kernel import kernel
from sluice.wire.avro.avro_program import Fault, Op
from sluice.wire.json.json_grammar import is_text
from sluice.wire.json.json_numbers import moment
from sluice.wire.varints import little

NO = -1
#: the size of the stack in words, which bounds the depth of nested calls and blocks
STACK = 256

(
    END, FAULT, JUMP, CALL, RETURN, BRANCH, BLOCK, AGAIN, EMPTY_BLOCKS, CLOSE, CONSTANT, PASS_NUMBER, PASS_INT,
    PASS_BOOLEAN, PASS_ENUM, PASS_FIXED, PASS_BYTES, PASS_TEXT, INT, LONG, INT_TIME, LONG_TIME, TEXT_TIME, INT_REAL,
    LONG_REAL, FLOAT, DOUBLE, BOOLEAN, TEXT, BYTES, FIXED, OPEN, NEXT, MARK, BACK, SPAN, SHUT, SEEK, KEY, FOUND,
) = map(int, Op)  # fmt: skip
(
    NONE, CUT, BEHIND, NUMBER, SELECTOR, LENGTH, WRONG_TEXT, DEPTH, NULL, MISSING, RANGE, MISMATCH, ABSENT, NO_JSON,
    NO_TIME,
) = map(int, Fault)  # fmt: skip
INT_MOST = 2**31 - 1
LONG_MOST = 2**63 - 1


class Buffers(NamedTuple):
    """The buffers for values. Buffer b has `room[b]` entries from index `base[b]` on, of which `filled[b]` are used.

    `words` and `reals` are the same memory, as int64 and as float64. A text is stored as its start, in `words`, and its
    end, in `ends`. A value for which there is no room is counted in `filled`, but not stored.
    """

    words: np.ndarray
    reals: np.ndarray
    ends: np.ndarray
    base: np.ndarray
    room: np.ndarray
    filled: np.ndarray


class Scratch(NamedTuple):
    """Scratch memory.

    before         the values of `filled` before the current record, to undo a record with a fault
    stack          return positions of calls, numbers of remaining items of blocks, and positions in the record
    bits, single   one 32-bit word, as an int and as a float
    """

    before: np.ndarray
    stack: np.ndarray
    bits: np.ndarray
    single: np.ndarray


@kernel
def scan(
    data: np.ndarray, starts: np.ndarray, skipped: int, code: np.ndarray, constants: np.ndarray, texts: np.ndarray,
    to: Buffers, scratch: Scratch, faults: np.ndarray,
) -> None:  # fmt: skip
    """Decodes each record r, which is `data[starts[r] + skipped:starts[r + 1]]`.

    `faults[0, r]` becomes the fault of the record, NONE if there is none. `faults[1, r]` becomes the number of the
    attribute with the fault, -1 if it belongs to no attribute.
    """
    for row in range(faults.shape[1]):
        for b in range(len(to.filled)):
            scratch.before[b] = to.filled[b]
        fault, attribute = _record(data, starts[row] + skipped, starts[row + 1], code, constants, texts, to, scratch)
        faults[0, row], faults[1, row] = fault, attribute
        if fault != NONE:
            for b in range(len(to.filled)):
                to.filled[b] = scratch.before[b]


@kernel
def _record(
    data: np.ndarray, i: int, stop: int, code: np.ndarray, constants: np.ndarray, texts: np.ndarray, to: Buffers,
    scratch: Scratch,
) -> tuple[int, int]:  # fmt: skip
    at, top, stack = 0, 0, scratch.stack
    while True:
        op, a, b, attribute = code[at, 0], code[at, 1], code[at, 2], code[at, 3]
        fault = NONE
        at += 1
        if op == LONG:
            value, i, fault = _number(data, i, stop)
            _keep(to, a, value)
        elif op == INT:
            value, i, fault = _int(data, i, stop)
            _keep(to, a, value)
        elif op == DOUBLE:
            value, i, fault = little(data, i, stop, 8)
            _keep(to, a, value)
        elif op == TEXT or op == PASS_TEXT:
            size, i, fault = _length(data, i, stop)
            if fault == NONE and not is_text(data, i, i + size):
                fault = WRONG_TEXT
            if fault == NONE:
                if op == TEXT:
                    _keep_text(to, a, i, i + size)
                i += size
        elif op == BRANCH:
            value, i, fault = _int(data, i, stop)
            if fault == NONE and not 0 <= value < a:
                fault = SELECTOR
            if fault == NONE:
                at += value
        elif op == JUMP:
            at = a
        elif op == INT_TIME or op == LONG_TIME:
            value, i, fault = _int(data, i, stop) if op == INT_TIME else _number(data, i, stop)
            if fault == NONE and b > 1 and not -(LONG_MOST // b) <= value <= LONG_MOST // b:
                fault = RANGE
            _keep(to, a, value * b)
        elif op == TEXT_TIME:
            size, i, fault = _length(data, i, stop)
            if fault == NONE:
                value, sure = moment(data, i, i + size)
                fault = NONE if sure else NO_TIME
                _keep(to, a, value)
                i += size
        elif op == INT_REAL or op == LONG_REAL:
            value, i, fault = _int(data, i, stop) if op == INT_REAL else _number(data, i, stop)
            _keep_real(to, a, float(np.float32(value)) if b else float(value))
        elif op == FLOAT:
            value, i, fault = little(data, i, stop, 4)
            scratch.bits[0] = value
            _keep_real(to, a, float(scratch.single[0]))
        elif op == BOOLEAN or op == PASS_BOOLEAN:
            fault = CUT if i >= stop else (NONE if data[i] <= 1 else NUMBER)
            if fault == NONE:
                if op == BOOLEAN:
                    _keep(to, a, int(data[i]))
                i += 1
        elif op == CONSTANT:
            _keep_text(to, a, constants[b, 0], constants[b, 1])
        elif op == BLOCK:
            value, i, fault = _block(data, i, stop)
            if value == 0:
                at = a
            elif top + 1 > len(stack) - 1:
                fault = DEPTH
            else:
                stack[top] = value
                top += 1
        elif op == AGAIN:
            stack[top - 1] -= 1
            at = a
            if stack[top - 1] == 0:
                top -= 1
                at = b
        elif op == CLOSE:
            _keep(to, a, to.filled[b])
        elif op == CALL:
            if top + 1 > len(stack) - 1:
                fault = DEPTH
            else:
                stack[top] = at
                top += 1
                at = a
        elif op == RETURN:
            top -= 1
            at = stack[top]
        elif op == OPEN or op == MARK or op == SEEK:
            if top + 1 > len(stack) - 1:
                fault = DEPTH
            else:
                stack[top] = i if op == MARK else (0 if op == OPEN else NO)
                top += 1
        elif op == NEXT:
            if stack[top - 1] == 0:
                stack[top - 1], i, fault = _block(data, i, stop)
            if fault == NONE:
                stack[top - 1] -= 1
                if stack[top - 1] < 0:
                    top -= 1
                    at = a
        elif op == BACK:
            top -= 1
            i = stack[top]
        elif op == KEY:
            size, i, fault = _length(data, i, stop)
            if fault == NONE and not is_text(data, i, i + size):
                fault = WRONG_TEXT
            if fault == NONE:
                start = i
                i += size
                if _is(data, start, size, texts, ~constants[a, 0], ~constants[a, 1]):
                    stack[top - 2] = i
        elif op == FOUND:
            if stack[top - 1] == NO:
                top -= 1
                at = a
            else:
                value = stack[top - 1]
                stack[top - 1] = i
                i = value
        elif op == EMPTY_BLOCKS:
            value = 1
            while value != 0 and fault == NONE:
                value, i, fault = _block(data, i, stop)
        elif op == PASS_NUMBER:
            value, i, fault = _number(data, i, stop)
        elif op == PASS_INT:
            value, i, fault = _int(data, i, stop)
        elif op == PASS_ENUM:
            value, i, fault = _int(data, i, stop)
            if fault == NONE and not 0 <= value < a:
                fault = SELECTOR
        elif op == PASS_FIXED or op == FIXED:
            size = a if op == PASS_FIXED else b
            if size > stop - i:
                fault = CUT
            else:
                if op == FIXED:
                    _keep_text(to, a, i, i + size)
                i += size
        elif op == PASS_BYTES or op == BYTES:
            size, i, fault = _length(data, i, stop)
            if fault == NONE:
                if op == BYTES:
                    fault = RANGE if size > b else NONE
                    _keep_text(to, a, i, i + size)
                i += size
        elif op == SPAN:
            _keep_text(to, a, i, i)
        elif op == SHUT:
            if to.filled[a] <= to.room[a]:
                to.ends[to.base[a] + to.filled[a] - 1] = i
        elif op == FAULT:
            fault = a
        else:  # END
            return (NONE if i == stop else BEHIND), NO
        if fault != NONE:
            return fault, attribute


@kernel
def _is(  # the comparison of a slice would make an array
    data: np.ndarray, first: int, size: int, texts: np.ndarray, start: int, end: int
) -> bool:
    """Whether `data[first:first + size]` is `texts[start:end]`."""
    if size != end - start:
        return False
    for place in range(size):
        if data[first + place] != texts[start + place]:
            return False
    return True


# ---- storing values --------------------------------------------------------------------------------------------------


@kernel
def _keep(to: Buffers, buffer: int, word: int) -> None:
    place = to.filled[buffer]
    if place < to.room[buffer]:
        to.words[to.base[buffer] + place] = word
    to.filled[buffer] = place + 1


@kernel
def _keep_real(to: Buffers, buffer: int, real: float) -> None:
    place = to.filled[buffer]
    if place < to.room[buffer]:
        to.reals[to.base[buffer] + place] = real
    to.filled[buffer] = place + 1


@kernel
def _keep_text(to: Buffers, buffer: int, start: int, end: int) -> None:
    place = to.filled[buffer]
    if place < to.room[buffer]:
        to.words[to.base[buffer] + place] = start
        to.ends[to.base[buffer] + place] = end
    to.filled[buffer] = place + 1


# ---- reading ---------------------------------------------------------------------------------------------------------


@kernel
def _number(data: np.ndarray, i: int, stop: int) -> tuple[int, int, int]:
    """Reads a long, which has at most ten bytes; the tenth adds one bit. Returns value, position behind it, fault."""
    bits, shift = np.uint64(0), 0
    while i < stop:
        byte = np.uint64(data[i])
        i += 1
        if shift == 63 and byte > np.uint64(1):
            return 0, i, NUMBER
        bits |= (byte & np.uint64(0x7F)) << np.uint64(shift)
        if byte < np.uint64(0x80):
            value = np.int64(bits >> np.uint64(1)) ^ -np.int64(bits & np.uint64(1))
            return value, i, NONE  # type: ignore[return-value]
        shift += 7
    return 0, i, CUT


@kernel
def _int(data: np.ndarray, i: int, stop: int) -> tuple[int, int, int]:
    value, i, fault = _number(data, i, stop)
    if fault == NONE and not -INT_MOST - 1 <= value <= INT_MOST:
        fault = NUMBER
    return value, i, fault


@kernel
def _length(data: np.ndarray, i: int, stop: int) -> tuple[int, int, int]:
    """Reads a length. Without a fault, so many bytes follow in the record. Returns length, position, fault."""
    size, i, fault = _number(data, i, stop)
    if fault == NONE and size < 0:
        fault = LENGTH
    elif fault == NONE and size > stop - i:
        fault = CUT
    return size, i, fault


@kernel
def _block(data: np.ndarray, i: int, stop: int) -> tuple[int, int, int]:
    """Reads the start of a block. Returns its number of items (0: no more blocks), position, fault.

    After a negative number of items comes the block's number of bytes, which is read and ignored.
    """
    count, i, fault = _number(data, i, stop)
    if fault == NONE and count < 0:
        count = -count
        if count < 0:
            return 0, i, LENGTH
        size, i, fault = _number(data, i, stop)
        if fault == NONE and size < 0:
            fault = LENGTH
    return count, i, fault
