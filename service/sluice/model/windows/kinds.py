"""The kinds of windows: one row each."""

from __future__ import annotations

from collections.abc import Mapping

from sluice.model.errors import one_of
from sluice.model.functions import Function
from sluice.model.windows.cumulate_window import Cumulate
from sluice.model.windows.session_window import Session
from sluice.model.windows.sliding_time_window import SlidingTime
from sluice.model.windows.sliding_window import Sliding
from sluice.model.windows.table_window import TableWindow
from sluice.model.windows.time_interval_window import TimeInterval
from sluice.model.windows.tumbling_window import Tumbling
from sluice.model.windows.window_kind import SizedKind, WindowFunction, WindowKind

#: the word of a clause -> the kind
KINDS: Mapping[str, type[WindowKind]] = {
    kind.word: kind for kind in (Tumbling, Sliding, TimeInterval, Cumulate, SlidingTime, Session, TableWindow)
}

#: the kinds whose clause has a word and sized parts; the others have policies
SIZED: Mapping[str, type[SizedKind]] = {word: kind for word, kind in KINDS.items() if issubclass(kind, SizedKind)}

#: the functions that describe a window which fires, and their rows in the documentation
WINDOW_FUNCTIONS: Mapping[str, WindowFunction] = {
    function.signature.name: function for kind in KINDS.values() for function in kind.functions
}
SIGNATURES: Mapping[str, Function] = {name: function.signature for name, function in WINDOW_FUNCTIONS.items()}


def kinds_with(function: str) -> str:
    """The kinds of windows that a function describes (E32), in words."""
    return one_of([word for word, kind in KINDS.items() if any(f.signature.name == function for f in kind.functions)])


def kinds_reading(option: str) -> str:
    """The kinds of windows that read a key of their operator, in words."""
    return one_of([word for word, kind in KINDS.items() if option in kind.options])


def kinds_with_early() -> str:
    """The kinds of windows that can emit early results, in words."""
    return one_of([word for word, kind in KINDS.items() if kind.early])


def kinds_with_panes() -> str:
    """The kinds of windows that have panes of event time, in words."""
    return one_of([word for word, kind in KINDS.items() if kind.paned])


def kinds_of(operator: str) -> str:
    """The kinds of windows that an operator accepts, "sort" or "custom", in words."""
    return one_of([word for word, kind in KINDS.items() if operator in kind.operators])
