"""The interface of windowed operators in Python: `custom:` with `handler: package.module:Class` in the pipeline file.

    class Gaps(WindowHandler):
        input = {"at": "timestamp"}
        output = {"gap": "int64"}

        def after_insertion(self, window, row):
            *_, before, now = [None, *window.tuples]
            if before:
                yield {"gap": now["at"] - before["at"]}

The class is imported in the process that checks the pipeline file, and in each process that runs the pipeline.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from sluice.api.class_loader import ClassError, bind, resolve
from sluice.model.errors import nearest
from sluice.model.types import Schema, parse_type

Row = Mapping[str, Any]
#: the return value of a method: the tuples to send, each a mapping of its attributes; None: no tuples
Sent = Iterable[Mapping[str, Any]] | None
#: the names of the methods, and the number of their arguments without `self`
EVENTS = {
    "before_insertion": 2, "after_insertion": 2, "before_eviction": 2, "after_eviction": 2, "initial_full": 1,
    "trigger": 1, "partition_eviction": 1, "pane_close": 1,
}  # fmt: skip


class Window(Protocol):
    """The window that a handler's method gets: a window partition or, over event time, one interval of it."""

    #: the values of `partition_by`
    key: Sequence[Any]
    #: the tuples in the window, in order of arrival
    tuples: Sequence[Row]
    #: whether the window was full at least once; for a pane whether it is complete
    full: bool
    #: JSON values that the handler stores for this window; saved with the state, removed with the window
    memory: dict[str, Any]
    #: the operator clock, in nanoseconds since 1970
    now: int
    #: the bounds of a pane or of a slidingTime window, in units of the event time (for a float64 event time in
    #: nanoseconds); None for other windows
    start: int | None
    end: int | None
    #: for a pane the number of its earlier firings, and "paneOnComplete" or "paneLate"; None for other windows
    index: int | None
    timing: str | None

    def __len__(self) -> int: ...


class WindowHandler:
    """The base class of window handlers. A subclass defines the methods for the events that it handles.

    A method may return tuples; they are sent at once. Values are int, float, str and bool, and lists of them. A
    timestamp is an int: nanoseconds since 1970. None is null, a value of the types with a `?`. The result of a method
    must depend on the window and the tuple alone. It must not use another clock, random numbers, files, or attributes
    of the handler object: the service may replace the object by a new one at any time. Use `window.memory` to keep
    data.
    """

    #: the attributes that the handler reads, and their types; if empty, all attributes of the input
    input: ClassVar[Mapping[str, str]] = {}
    #: the attributes of the tuples that the handler sends, and their types
    output: ClassVar[Mapping[str, str]] = {}

    def before_insertion(self, window: Window, row: Row) -> Sent:
        """Called before `row` enters the window."""

    def after_insertion(self, window: Window, row: Row) -> Sent:
        """Called after `row` entered the window."""

    def before_eviction(self, window: Window, row: Row) -> Sent:
        """Called before `row` leaves a sliding window."""

    def after_eviction(self, window: Window, row: Row) -> Sent:
        """Called after `row` left a sliding window."""

    def initial_full(self, window: Window) -> Sent:
        """Called when a sliding window is full for the first time, or when a pane is complete."""

    def trigger(self, window: Window) -> Sent:
        """Called when the window fires. A window mark follows the returned tuples, but not if None is returned.

        A tumbling window is emptied afterwards. A sliding window also fires before it was full.
        """

    def partition_eviction(self, window: Window) -> Sent:
        """Called before the partition is evicted with its tuples and its `memory`."""

    def pane_close(self, window: Window) -> Sent:
        """Called before a pane is removed, after which no tuple can enter it."""


def load(name: str) -> type[WindowHandler]:
    """The class that `package.module:Class` names. Raises ClassError."""
    return _checked(resolve(name, WindowHandler))


def schema(types: Mapping[str, str]) -> Schema:
    """The attributes with their types as a schema. Raises ValueError for an unknown type."""
    return tuple((name, parse_type(text)) for name, text in types.items())


def _checked(handler_class: type[WindowHandler]) -> type[WindowHandler]:
    if not handler_class.output:
        raise ClassError(f"a class whose `output` has the attributes that it sends ({handler_class.__name__} has none)")
    for types_of_attributes in (handler_class.input, handler_class.output):
        for name, text in types_of_attributes.items():
            try:
                parse_type(text)
            except (ValueError, TypeError, AttributeError) as error:
                raise ClassError(
                    f"types in `input` and `output` ({handler_class.__name__}: {name} is {text!r})"
                ) from error
    for method in _misspelled(handler_class):
        raise ClassError(
            f"methods for {', '.join(EVENTS)} ({handler_class.__name__} has {method})", nearest(method, EVENTS)
        )
    try:
        bind(handler_class, EVENTS)
    except TypeError as error:
        raise ClassError(
            f"methods with the arguments of WindowHandler's ({handler_class.__name__}: {error})"
        ) from error
    return handler_class


def _misspelled(handler_class: type[WindowHandler]) -> Iterator[str]:
    """The public methods whose names resemble a name in EVENTS without being one: probably misspelled."""
    for name in vars(handler_class):
        if (
            not name.startswith("_")
            and callable(getattr(handler_class, name))
            and name not in EVENTS
            and nearest(name, EVENTS)
        ):
            yield name
