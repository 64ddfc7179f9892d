"""Why a function has no value for its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class Error(IntEnum):
    """The reasons, as the numbers in a mask of errors."""

    NONE = 0
    NO_VALUE = 1
    DIGITS = 2
    NO_QUOTIENT = 3
    NO_NUMBER = 4
    ABSENT = 5  # of `x!`


#: error -> the end of the reason of the dead letter, behind the name of the value
REASONS: Mapping[Error, str] = {
    Error.NO_VALUE: "has no value",
    Error.DIGITS: "has more digits than its type",
    Error.NO_QUOTIENT: "is a division by zero, or has more digits than its type",
    Error.NO_NUMBER: "is no number that its type has",
    Error.ABSENT: "is null",
}
