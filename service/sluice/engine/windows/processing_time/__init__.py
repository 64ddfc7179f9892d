"""Decides when tuples enter and leave a window and when it fires: SPL's window events for tumbling and sliding windows
(reference 3, 4, 6).

The kernel handles the items of a batch in order, and the ticks of the operator's timer between them. It writes down
what happens to each partition: a tuple is inserted (INSERT) or evicted (EVICT), the content is emitted (FIRE), all of
it leaves (CLEAR). The kernel does not depend on aggregates, and the code that reads these events (engine/contents/)
does not depend on policies.

window_records.py      the records that the kernel reads and writes
window_records.py        the items of a batch as such records
window_kernel.py       the kernel: items and ticks in order
tumbling.py, sliding.py   what a tuple, a tick or a mark does to a window of this kind
eviction.py            which tuples leave a sliding window
time_queue.py, delta_heap.py   its tuples in order of arrival over all partitions, and in order of values
partition_eviction.py  which partitions leave as a whole: partitionAge, partitionCount, tupleCount
window_steps.py        the steps that all of them share: insert, fire, flush
stored_partitions.py   the list of partitions that hold tuples, least recently inserted into first
window_tables.py       which tables a window needs, and how the kernel gets them
window_state.py        these tables in an operator's state: save, compact, split and merge

A partition is stored while it holds tuples. What S7 keeps longer (whether the partition was full, its trigger counter
and its reference value) stays in the partition's record.
"""

from sluice.engine.windows.processing_time.eviction import evict, evict_expired, evict_oldest
from sluice.engine.windows.processing_time.partition_eviction import evict_aged, evict_surplus
from sluice.engine.windows.processing_time.time_queue import expired, leaves
from sluice.engine.windows.processing_time.tumbling import flush_rest
from sluice.engine.windows.processing_time.window_kernel import (
    MAX_EMPTY_TICKS,
    arrive,
    expire_tuples,
    run,
    skip_empty_ticks,
)
from sluice.engine.windows.processing_time.window_records import (
    ARRIVAL,
    CHAIN,
    CLEAR,
    EVENT,
    EVICT,
    FIRE,
    FIRING,
    FIRST,
    FULL,
    INSERT,
    INSTANT,
    LAST,
    LIVE,
    LOSE,
    NUMBER,
    STORED,
    TICK,
    Window,
    arrivals,
)
from sluice.engine.windows.processing_time.window_tables import PERIODIC, Windowed, needed, scalars, window_of

__all__ = [
    "ARRIVAL", "CHAIN", "CLEAR", "EVENT", "EVICT", "FIRE", "FIRING", "FIRST", "FULL", "INSERT", "INSTANT", "LAST",
    "LIVE", "LOSE", "MAX_EMPTY_TICKS", "NUMBER", "PERIODIC", "STORED", "TICK", "Window", "Windowed", "arrivals",
    "arrive", "evict", "evict_aged", "evict_expired", "evict_oldest", "evict_surplus", "expire_tuples", "expired",
    "flush_rest", "leaves", "needed", "run", "scalars", "skip_empty_ticks", "window_of",
]  # fmt: skip
