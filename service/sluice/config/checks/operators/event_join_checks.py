"""Checks the window of a join over event time, `window`, and builds it (rules I1 to I8 and U1 to U7)."""

from __future__ import annotations

from sluice.config.checks.event_time_checks import MAX_TICKS
from sluice.config.checks.expression_checks import ExpressionChecks
from sluice.config.syntax.clause_parts import read_parts
from sluice.config.syntax.file_models.operator_models import JoinShape
from sluice.config.syntax.other_systems import join_window_of_another_system
from sluice.config.syntax.sized_clause import Sizes, read_sizes
from sluice.model.errors import Fault, nearest, one_of
from sluice.model.windows.join_windows import JOIN_WINDOWS, JoinWindow
from sluice.time_units import SECOND

SIDES = ("left", "right")


def given_windows(checks: ExpressionChecks, index: int, shape: JoinShape) -> None:
    """Checks that a join has either a window for each side, or one window over the event times of both."""
    for side in SIDES:
        key = f"window_{side}"
        path = checks.path(index, key)
        if getattr(shape, key) is None and shape.window is None and not checks.shaped.partly(path):
            checks.report.problem(path, f'the key "{key}", or window for a join over event time', None)
        elif getattr(shape, key) is not None and shape.window is not None:
            checks.report.problem(path, "none beside window, which is for both sides (rule I1)")


def event_window(checks: ExpressionChecks, index: int, shape: JoinShape) -> JoinWindow | None:
    """The window over the event times of both sides; None if the join has none, or if it is wrong."""
    if shape.window is None:
        return None
    path = checks.path(index, "window")
    sizes = clause(shape.window, checks, index)
    if sizes is None:
        return None
    window = kind_of(sizes).of(sizes.nanoseconds, {}, partitioned=False, event_time=True)
    for problem in window.problems():
        checks.report.problem(path, problem)
    if sum(map(abs, sizes.nanoseconds.values())) >= MAX_TICKS:
        checks.report.problem(path, f"sizes of less than {MAX_TICKS // SECOND} seconds together")
    check_event_times(checks, index, shape, window)
    check_keys(checks, index, shape, window)
    return window


def clause(text: str, checks: ExpressionChecks, index: int) -> Sizes | None:
    """The window of a clause; None if the clause is wrong, which is reported."""
    if other := join_window_of_another_system(text):
        checks.report.fault(checks.path(index, "window"), Fault(other, text))
        return None
    faults: list[Fault] = []
    parts = list(read_parts(text, faults))
    sizes = None
    if any(part.word in JOIN_WINDOWS for part in parts):
        sizes = read_sizes(parts, faults, JOIN_WINDOWS)
    elif not faults:
        words = one_of(list(JOIN_WINDOWS))
        hint = next((word for part in parts if (word := nearest(part.word, list(JOIN_WINDOWS)))), None)
        faults.append(Fault(f"{words} in window, or window_left and window_right for other windows", text, hint))
    for fault in faults:
        checks.report.fault(checks.path(index, "window"), fault)
    return None if faults else sizes


def kind_of(sizes: Sizes) -> type[JoinWindow]:
    return JOIN_WINDOWS[sizes.kind.word]


def check_event_times(checks: ExpressionChecks, index: int, shape: JoinShape, window: JoinWindow) -> None:
    """Checks that both inputs have an event time (W16)."""
    for side in SIDES:
        stream = getattr(shape.join, side)
        missing = checks.streams.event_times.get(stream) is None and not checks.wrong(stream)
        if missing and stream in checks.streams.schemas:
            expected = f"an input with event_time, as the window is {window.word} (rule W16)"
            checks.report.problem(checks.path(index, "join", side), expected)


def check_keys(checks: ExpressionChecks, index: int, shape: JoinShape, window: JoinWindow) -> None:
    """Checks that the join has no key and no algorithm that its window does not allow (U1, U7)."""
    for side in SIDES:
        key = f"partition_by_{side}"
        if getattr(shape, key):
            checks.report.problem(
                checks.path(index, key), "none beside window: equality_left and equality_right are the key"
            )
    if shape.algorithm not in window.algorithms:
        expected = f"{one_of(list(window.algorithms))} with {window.word}"
        checks.report.problem(checks.path(index, "algorithm"), expected)
    if shape.match is not None and not window.takes_match:
        expected = f"none with {window.word}, whose partner is the newest tuple (rule U1)"
        checks.report.problem(checks.path(index, "match"), expected)
