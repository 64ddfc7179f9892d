"""The time limit of the calls of users' classes (FN14).

A call that takes longer is interrupted in the main thread by the signal SIGALRM, in Python code and in the waits of
Python. The batch then ends with an error. No row becomes a dead letter by it, because the time that a call takes
depends on the machine, and a batch that runs again must have the same outputs.

The timer of the process is set once for many calls, so a call costs no request to the system. There is no limit in
other threads, as those of the lab, and in a process whose SIGALRM has another user.

Code in C that neither returns nor looks at signals cannot be interrupted. A call over arrays that has taken KILL times
the limit ends its process, with the stacks of its threads on standard error.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import ParamSpec, TypeVar

from sluice.model.errors import SluiceError

P = ParamSpec("P")
R = TypeVar("R")

#: seconds after which a call that has caught the interruption is interrupted again
AGAIN_S = 1.0
#: after how many times its limit a call over arrays ends the process
KILL = 2


class CallTimeoutError(SluiceError):
    """A call of a user's class took longer than `class_timeout`. The next start repeats the batch."""

    exit_code = 6


class Overdue(BaseException):
    """Raised inside of a user's class. It is no Exception, so that the class does not catch it by accident."""


class Calls:
    """The calls of this process, which are made one after the other in the main thread."""

    #: the operator that is fed, and the limit of a call in seconds; 0: there is none
    operator: str = ""
    seconds: float = 0.0
    #: the monotonic time at which the running call is overdue; None while none runs
    overdue: float | None = None
    #: the process that has set its timer; 0: none. A forked process has no timer
    timed: int = 0


def limit(operator: str, seconds: float) -> None:
    """Sets the limit of the calls that follow, which are those of `operator`. 0: they have none."""
    Calls.operator, Calls.seconds = operator, seconds


def leave_timer() -> None:
    """Leaves the timer of this process, which was forked, to its other user: SIGALRM ends it."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    Calls.timed = os.getpid()


def call(name: object, function: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
    """Calls a function that calls the class `name`. Raises CallTimeoutError if it takes longer than the limit
    (FN14).

    The function must let Overdue pass, which is raised in it.
    """
    if not _limited():
        return function(*arguments, **named)
    try:
        Calls.overdue = time.monotonic() + Calls.seconds
        try:
            if Calls.timed != os.getpid():
                _set_timer(Calls.seconds)
            return function(*arguments, **named)
        finally:
            Calls.overdue = None
    except Overdue:
        raise CallTimeoutError(_message(name)) from None


def call_over_arrays(name: object, function: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
    """As `call`. Code in C that does not return ends the process; this costs the start of a thread."""
    if not _limited():
        return function(*arguments, **named)
    faulthandler.dump_traceback_later(KILL * Calls.seconds, exit=True, file=2)
    try:
        return call(name, function, *arguments, **named)
    finally:
        faulthandler.cancel_dump_traceback_later()


def _limited() -> bool:
    return Calls.seconds > 0 and threading.current_thread() is threading.main_thread()


@contextmanager
def of_batch(number: int) -> Iterator[None]:
    """Adds the number of the batch to the message of a CallTimeoutError."""
    try:
        yield
    except CallTimeoutError as error:
        raise CallTimeoutError(f"batch {number}, {error}") from None


def _message(name: object) -> str:
    class_name = f"{name.__module__}:{name.__qualname__}" if isinstance(name, type) else name
    return (
        f"operator {Calls.operator}: a call of the class {class_name} did not return within {Calls.seconds:g} s "
        f"(class_timeout). The next start repeats the batch"
    )


def _set_timer(seconds: float) -> None:
    """Sets the timer of this process, unless SIGALRM has another user."""
    if signal.getsignal(signal.SIGALRM) not in (signal.SIG_DFL, _rung):
        return
    signal.signal(signal.SIGALRM, _rung)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    Calls.timed = os.getpid()


def _rung(_number: int, _frame: FrameType | None) -> None:
    """The timer has rung: interrupts the running call if it is overdue, else sets the timer for it."""
    Calls.timed = 0
    if Calls.overdue is None:
        return
    left = Calls.overdue - time.monotonic()
    _set_timer(left if left > 0 else AGAIN_S)
    if left <= 0:
        raise Overdue
