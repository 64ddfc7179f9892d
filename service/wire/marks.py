"""Marks as headers of Kafka records: `sluice-mark: window`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from service.engine.items import FINAL, TUPLE, WINDOW

HEADER = "sluice-mark"

#: kinds of a record beside those of an item: marks that move a clock and go no further
WATERMARK, CLOCK = 4, 5
#: the kind of a record whose mark header has no known word
UNKNOWN = -1

WORDS = {"window": WINDOW, "final": FINAL, "watermark": WATERMARK, "clock": CLOCK}
NAMES = {kind: word for word, kind in WORDS.items()}


def header(kind: int) -> tuple[str, bytes]:
    """The header that makes a record a mark of this kind."""
    return HEADER, NAMES[kind].encode()


def kinds(headers: pa.Array) -> np.ndarray:
    """The kind of each record, from its list of headers (`key`, `value`): TUPLE where none of them is a mark's.

    As everywhere in Kafka, of several headers with one key the last one counts.
    """
    found = np.full(len(headers), TUPLE, np.int8)
    pairs = pc.list_flatten(headers)
    if len(pairs):
        records = pc.list_parent_indices(headers).to_numpy()
        marked = np.flatnonzero(pc.equal(pairs.field("key"), HEADER).to_numpy(zero_copy_only=False))
        words = pairs.field("value").take(pa.array(marked)).to_pylist()
        found[records[marked]] = [_kind(word) for word in words]
    return found


def _kind(word: bytes | None) -> int:
    return WORDS.get((word or b"").decode(errors="replace"), UNKNOWN)
