"""Scalar functions of texts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine.stream.functions.column_arguments import (
    EDGE,
    INT64,
    STRING,
    Column,
    by_name,
    by_row,
    constants,
    none,
)
from sluice.engine.stream.functions.list_functions import bounds, over_rows

#: the most characters that `replace` and the most bytes of separators that `join` make of arguments of a record: the
#: product of the lengths of two texts of a megabyte has a terabyte
LONGEST = 1 << 20
#: stands around the matches of `regexExtractAll`: a code point that no text has, since it is no character
MARK = "\U0010ffff"


def concatenate(left: Column, right: Column) -> Column:
    return pc.binary_join_element_wise(left, right, "")


def characters(text: Column) -> Column:
    return pc.cast(pc.utf8_length(text), INT64)


def substring(text: Column, start: Column, length: Column | None = None) -> Column:
    if constants(start, length):
        first = max(start.as_py(), 0)
        stop = None if length is None else min(first + max(length.as_py(), 0), EDGE - 1)
        return pc.utf8_slice_codeunits(text, first, stop)
    return by_row(cut, STRING, text, start, *([] if length is None else [length]))


def cut(text: str, start: int, length: int = EDGE) -> str:
    return text[max(start, 0) : max(start, 0) + max(length, 0)]


def left(text: Column, count: Column) -> Column:
    return substring(text, pa.scalar(0, INT64), count)


def right(text: Column, count: Column) -> Column:
    if constants(count) and count.as_py() > 0:
        return pc.utf8_slice_codeunits(text, -min(count.as_py(), EDGE - 1))
    return by_row(lambda t, n: t[-n:] if n > 0 else "", STRING, text, count)


def repeated(text: Column, times: Column) -> Column:
    return pc.binary_repeat(text, times.as_py())


def contains(text: Column, part: Column) -> Column:
    if constants(part):
        return pc.match_substring(text, pattern=part.as_py())
    return by_row(lambda t, p: p in t, pa.bool_(), text, part)


def starts_with(text: Column, part: Column) -> Column:
    if constants(part):
        return pc.starts_with(text, pattern=part.as_py())
    return by_row(str.startswith, pa.bool_(), text, part)


def ends_with(text: Column, part: Column) -> Column:
    if constants(part):
        return pc.ends_with(text, pattern=part.as_py())
    return by_row(str.endswith, pa.bool_(), text, part)


def index_of(text: Column, part: Column) -> Column:
    return by_row(str.find, INT64, text, part)


def replace(text: Column, old: Column, new: Column) -> Column:
    if constants(old, new) and old.as_py():  # pyarrow loops without end on an empty pattern
        return pc.replace_substring(text, pattern=old.as_py(), replacement=new.as_py())
    return by_row(replaced, STRING, text, old, new)


def replaced(text: str, old: str, new: str) -> str | None:
    """The text with `new` for each `old`; None if the result is longer than both the text and LONGEST."""
    more = text.count(old) * (len(new) - len(old)) if old else 0
    if len(text) + more > max(LONGEST, len(text)):
        return None
    return text.replace(old, new) if old else text


def pad_start(text: Column, width: Column, fill: Column | None = None) -> Column:
    return pc.utf8_lpad(text, width=width.as_py(), padding=" " if fill is None else fill.as_py())


def pad_end(text: Column, width: Column, fill: Column | None = None) -> Column:
    return pc.utf8_rpad(text, width=width.as_py(), padding=" " if fill is None else fill.as_py())


def split(text: Column, separator: Column) -> Column:
    return pc.split_pattern(text, pattern=separator.as_py())


def join(texts: Column, separator: Column) -> Column:
    if not constants(separator):
        size = pc.multiply(pc.cast(pc.list_value_length(texts), INT64), pc.cast(pc.binary_length(separator), INT64))
        separator = pc.if_else(pc.greater(size, LONGEST), none(separator), separator)
    return pc.binary_join(texts, separator)


def regex_contains(text: Column, pattern: Column) -> Column:
    return pc.match_substring_regex(text, pattern=pattern.as_py())


def regex_replace(text: Column, pattern: Column, new: Column) -> Column:
    return pc.replace_substring_regex(text, pattern=pattern.as_py(), replacement=new.as_py())


def regex_extract(text: Column, pattern: Column, group: Column | None = None) -> Column:
    """The first match of the pattern, or a group of it; null if there is none. The whole text is replaced by the match,
    because pyarrow's own extraction requires a name for every group.
    """
    matches = regex_contains(text, pattern)
    whole = rf"(?s)^.*?((?-s){pattern.as_py()})(?s).*$"
    number = 1 if group is None else group.as_py() + 1
    extracted = pc.replace_substring_regex(text, pattern=whole, replacement=rf"\{number}")
    return pc.if_else(matches, extracted, none(text))


def regex_extract_all(text: pa.Array, pattern: pa.Array, group: pa.Array | None = None) -> pa.Array:
    """All matches: RE2 writes a MARK before and behind each, and the text is split at the marks, so that every second
    part is a match. No value for a text that has the MARK already.
    """
    if not len(text):
        return pa.array([], pa.list_(STRING))
    number = 1 if group is None else group[0].as_py() + 1
    marked = pc.replace_substring_regex(
        text, pattern=rf"(?s).*?((?-s){pattern[0].as_py()})", replacement=rf"{MARK}\{number}{MARK}"
    )
    parts = pc.split_pattern(marked, pattern=MARK)
    starts, lengths = bounds(parts)
    counts, ends = lengths // 2, np.cumsum(lengths // 2)
    places = np.repeat(starts - 2 * (ends - counts), counts) + 2 * np.arange(int(counts.sum())) + 1
    missing = pc.fill_null(pc.match_substring(text, pattern=MARK), True)  # noqa: FBT003
    offsets = pa.array(np.concatenate([[0], ends]).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, parts.values.take(pa.array(places)), mask=missing)


def regex_count(text: Column, pattern: Column) -> Column:
    return pc.cast(pc.count_substring_regex(text, pattern=pattern.as_py()), INT64)


KERNELS = by_name(
    left, right, repeated, regex_count,
    concatenate, characters, substring, contains, starts_with, ends_with, index_of, replace, pad_start, pad_end, split,
    join, regex_contains, regex_extract, regex_replace,
) | {"regex_extract_all": over_rows(regex_extract_all)}  # fmt: skip
