"""When tuples enter and leave a window and when it fires: SPL's window events, for every policy (reference 3, 4, 6).

The kernel walks the items of a batch in order, and the ticks of the operator's timer between them, and writes down what
happens to each partition: a tuple is inserted (INSERT), evicted (EVICT), the content is handed to the operator (FIRE),
all of it leaves (CLEAR). It knows nothing of aggregates; who reads these events (contents.py) knows nothing of
policies.

events.py     what the kernel reads and writes
arrivals.py   items as it reads them
run.py        the kernel: items and ticks in order
tumbling.py, sliding.py   what a tuple, a tick or a mark does to a window of this kind
eviction.py   which tuple leaves a sliding window: the oldest, what is too old, what is too far below
queue.py, values.py   its tuples in order of arrival over all partitions, and in that of values
partitions.py which partitions leave as a whole: partitionAge, partitionCount, tupleCount
steps.py      what all of them do: insert, fire, flush
stored.py     the partitions that hold tuples, least recently inserted into first
tables.py     which tables a window needs, and how the kernel takes them
window_state.py   all that as the tables of a state: saved, compacted, divided and put together

A partition is stored while it holds tuples. What S7 keeps beyond that, its fullness, counter and reference, stays in
its record.
"""

from sluice.engine.windows.processing_time.eviction import evict, evict_expired
from sluice.engine.windows.processing_time.item_records import arrivals
from sluice.engine.windows.processing_time.partition_eviction import evict_aged, evict_surplus
from sluice.engine.windows.processing_time.time_queue import expired, leaves
from sluice.engine.windows.processing_time.window_kernel import MOST_VOID, arrive, expire_tuples, run, skip_empty_ticks
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
)
from sluice.engine.windows.processing_time.window_tables import (
    PERIODIC,
    Windowed,
    needed,
    scalars,
    window_of,
)

__all__ = [
    "ARRIVAL",
    "CHAIN",
    "CLEAR",
    "EVENT",
    "EVICT",
    "FIRE",
    "FIRING",
    "FIRST",
    "FULL",
    "INSERT",
    "INSTANT",
    "LAST",
    "LIVE",
    "LOSE",
    "MOST_VOID",
    "NUMBER",
    "PERIODIC",
    "STORED",
    "TICK",
    "Window",
    "Windowed",
    "arrivals",
    "arrive",
    "evict",
    "evict_aged",
    "evict_expired",
    "evict_surplus",
    "expire_tuples",
    "expired",
    "leaves",
    "needed",
    "run",
    "scalars",
    "skip_empty_ticks",
    "window_of",
]  # fmt: skip
