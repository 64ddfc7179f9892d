"""Which tables a window needs for its policies, and how the kernel gets the tables of a state (window_state.py)."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from sluice.columns.intrusive_list import NIL
from sluice.engine.windows.early_results import EarlyResults
from sluice.engine.windows.policies import ALL, PARTITION_AGE, KernelClause
from sluice.engine.windows.processing_time.window_records import FIRST, LAST, SCALARS, Window

#: the instants of a periodic timer: none are listed
PERIODIC = np.zeros(0, np.int64)


class Windowed(Protocol):
    """A state with the tables of a window. Those that the window does not need are empty."""

    scalars: np.ndarray
    partitions: np.ndarray
    ages: np.ndarray
    gone: np.ndarray
    values: np.ndarray
    chain: np.ndarray
    order: np.ndarray
    queue: np.ndarray
    words: np.ndarray
    earlies: np.ndarray
    early_queue: np.ndarray
    waits: np.ndarray
    wait_queue: np.ndarray


def needed(clause: KernelClause) -> set[str]:
    """The names of the tables that a window with this clause needs."""
    by_value = {"values", "order"} if clause.by_value else set()
    names = {"partitions"} | by_value
    if clause.leaving.kind == PARTITION_AGE:
        names.add("ages")
    if clause.expiring and clause.leaving.kind != ALL:
        names.add("gone")
    if clause.early.wanted:
        names.add("earlies")
    if clause.wait.wanted:
        names.add("waits")
    if clause.chained:
        names.add("chain")
    return names | {"queue"} if clause.expiring else names


def scalars() -> np.ndarray:
    """The scalars of a window that holds nothing."""
    numbers = np.zeros(SCALARS, np.int64)
    numbers[[FIRST, LAST]] = NIL
    return numbers


def window_of(
    clause: KernelClause,
    state: Windowed,
    sources: np.ndarray | None,
    events: np.ndarray,
    firings: np.ndarray,
    used: np.ndarray,
    instants: np.ndarray = PERIODIC,
) -> Window:
    """The tables that the kernel works on. `sources` is None if the topic partitions of tuples do not matter."""
    if sources is None:
        sources = np.zeros((len(state.partitions), 0), np.int64)
    return Window(
        clause, state.scalars, state.partitions, state.ages, state.gone, state.values, state.chain, state.order,
        state.queue, state.words, sources, events, firings, used,
        EarlyResults(clause.early, state.earlies, state.early_queue),
        EarlyResults(clause.wait, state.waits, state.wait_queue), instants,
    )  # fmt: skip
