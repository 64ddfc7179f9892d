"""The policies of partition eviction: `partitionAge`, `partitionCount` and `tupleCount` (reference section 6)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from sluice.model.errors import Fault
from sluice.model.windows.policies.policy import MAX_COUNT, MAX_SECONDS, Part


class PartitionEviction(ABC):
    """When whole partitions leave a window."""

    __slots__ = ()

    #: the word of this policy in a clause
    word: ClassVar[str]
    #: the policy with its argument, for messages
    form: ClassVar[str]

    @classmethod
    @abstractmethod
    def read(cls, part: Part) -> Self | Fault:
        """The policy, or what is wrong."""

    @abstractmethod
    def clause(self) -> str:
        """The policy as text."""

    @abstractmethod
    def caution(self, part: Part) -> str:
        """A warning about a size that may be a mistake, after the text of the policy; empty if there is none."""


@dataclass(frozen=True, slots=True)
class PartitionAge(PartitionEviction):
    """`partitionAge(seconds)`: a partition into which no tuple was inserted for longer leaves; whole seconds (V6 to
    V9).
    """

    word: ClassVar[str] = "partitionAge"
    form: ClassVar[str] = "partitionAge(seconds)"

    seconds: int

    @classmethod
    def read(cls, part: Part) -> PartitionAge | Fault:
        match part.arguments:
            case (text,) if (length := part.seconds(text)) is not None and 0 <= length <= MAX_SECONDS:
                return cls(int(length))  # V6
        expected = f"{cls.form} with a number that is not negative, such as {part.durations}"
        return part.fault(expected, part.spelled_here())

    def clause(self) -> str:
        return f"partitionAge({self.seconds})"

    def caution(self, part: Part) -> str:
        exact = part.seconds((part.arguments or ("0",))[0]) == self.seconds
        return "" if exact else f"counts whole seconds: {self.seconds} (rule V6)"


@dataclass(frozen=True, slots=True)
class AtMost(PartitionEviction):
    """A policy that bounds a number."""

    #: what it counts
    counted: ClassVar[str]

    most: int

    @classmethod
    def read(cls, part: Part) -> Self | Fault:
        most = part.whole()
        if most is None:
            return part.fault(f"{cls.form} with a whole number of {cls.counted} from 0 to {MAX_COUNT}")
        return cls(most)

    def clause(self) -> str:
        return f"{self.word}({self.most})"

    def caution(self, part: Part) -> str:
        del part
        return "" if self.most else "evicts every tuple as soon as it is inserted (rule V10)"


@dataclass(frozen=True, slots=True)
class PartitionCount(AtMost):
    """`partitionCount(n)`: if there are more than n partitions, those least recently inserted into leave (V10)."""

    word: ClassVar[str] = "partitionCount"
    form: ClassVar[str] = "partitionCount(n)"
    counted: ClassVar[str] = "partitions"


@dataclass(frozen=True, slots=True)
class TupleCount(AtMost):
    """`tupleCount(n)`: if all partitions have more than n tuples together, whole partitions leave (V12 to V15)."""

    word: ClassVar[str] = "tupleCount"
    form: ClassVar[str] = "tupleCount(n)"
    counted: ClassVar[str] = "tuples"


#: the word of a clause -> the policy
PARTITION_EVICTIONS: Mapping[str, type[PartitionEviction]] = {
    policy.word: policy for policy in (PartitionAge, PartitionCount, TupleCount)
}
