"""Windowed operators that users write in Python: `custom:` in the file, `handler: package.module:Class`.

    class Gaps(WindowHandler):
        input = {"at": "timestamp"}
        output = {"gap": "int64"}

        def after_insertion(self, window, row):
            *_, before, now = [None, *window.tuples]
            if before:
                yield {"gap": now["at"] - before["at"]}

The class is imported where the pipeline file is checked, and again wherever it runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from sluice.api.class_loader import ClassError, resolve
from sluice.model.errors import nearest
from sluice.model.types import Schema, parse_type

Row = Mapping[str, Any]
#: what a method gives: tuples to send, each its attributes; None: nothing
Sent = Iterable[Mapping[str, Any]] | None
#: the methods, with how many arguments they take
EVENTS = {
    "before_insertion": 2, "after_insertion": 2, "before_eviction": 2, "after_eviction": 2, "initial_full": 1,
    "trigger": 1, "partition_eviction": 1, "pane_close": 1,
}  # fmt: skip


class Window(Protocol):
    """What a handler sees of a window: of a partition, and over event time of an interval."""

    #: the values of `partition_by`
    key: Sequence[Any]
    #: the tuples inside, in order of arrival
    tuples: Sequence[Row]
    #: whether it was full once; of a pane whether it is complete
    full: bool
    #: values of JSON that the handler remembers of this window, as long as it is there
    memory: dict[str, Any]
    #: the clock, nanoseconds since 1970
    now: int
    #: of a pane, or a window of slidingTime, in units of the event time, of a float64 nanoseconds; else None
    start: int | None
    end: int | None
    #: of a pane how often it fired before, and "paneOnComplete" or "paneLate"; else None
    index: int | None
    timing: str | None

    def __len__(self) -> int: ...


class WindowHandler:
    """The base of such classes: define the methods for the events that matter.

    Each may give tuples, which are sent at once. Values are int, float, str and bool, lists of them, and of a timestamp
    the nanoseconds since 1970 as an int. What a method gives must depend on the window and the tuple alone: no clock,
    no random numbers, no files, and nothing that the object itself remembers: it is made anew whenever the service
    likes.
    """

    #: the attributes that it reads, with their types
    input: ClassVar[Mapping[str, str]] = {}
    #: the attributes of the tuples that it sends, with their types
    output: ClassVar[Mapping[str, str]] = {}

    def before_insertion(self, window: Window, row: Row) -> Sent:
        """A tuple is about to come in."""

    def after_insertion(self, window: Window, row: Row) -> Sent:
        """A tuple has come in."""

    def before_eviction(self, window: Window, row: Row) -> Sent:
        """A tuple is about to leave a sliding window."""

    def after_eviction(self, window: Window, row: Row) -> Sent:
        """A tuple has left a sliding window."""

    def initial_full(self, window: Window) -> Sent:
        """A sliding window is full for the first time; a pane is complete."""

    def trigger(self, window: Window) -> Sent:
        """The window fires. Behind what this gives stands a window mark, unless it gives None.

        A tumbling window is empty after it. A sliding one fires also before it was full.
        """

    def partition_eviction(self, window: Window) -> Sent:
        """The partition is about to leave with all that is known of it."""

    def pane_close(self, window: Window) -> Sent:
        """No tuple can come to the pane any more; it is about to be forgotten."""


def load(name: str) -> type[WindowHandler]:
    """The class that `package.module:Class` names. Raises ClassError."""
    return _checked(resolve(name, WindowHandler))


def schema(types: Mapping[str, str]) -> Schema:
    """The attributes with their types. Raises ValueError."""
    return tuple((name, parse_type(text)) for name, text in types.items())


def _checked(made: type[WindowHandler]) -> type[WindowHandler]:
    if not made.output:
        raise ClassError(f"a class whose `output` has the attributes that it sends ({made.__name__} has none)")
    for which in (made.input, made.output):
        for name, text in which.items():
            try:
                parse_type(text)
            except (ValueError, TypeError, AttributeError) as error:
                raise ClassError(f"types in `input` and `output` ({made.__name__}: {name} is {text!r})") from error
    for method in _misspelt(made):
        raise ClassError(f"methods for {', '.join(EVENTS)} ({made.__name__} has {method})", nearest(method, EVENTS))
    try:
        inspect.signature(made).bind()
        for name, count in EVENTS.items():
            inspect.signature(getattr(made, name)).bind(*range(1 + count))
    except TypeError as error:
        raise ClassError(f"methods with the arguments of WindowHandler's ({made.__name__}: {error})") from error
    return made


def _misspelt(made: type[WindowHandler]) -> Iterator[str]:
    """Methods that look like one for an event, and are for none."""
    for name in vars(made):
        if not name.startswith("_") and callable(getattr(made, name)) and name not in EVENTS and nearest(name, EVENTS):
            yield name
