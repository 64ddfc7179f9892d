"""The contract of a format: all functions by which the other parts of the project use it.

    pipeline file                    checks                      records
    keys, word  -->  options(values)  -->  check(part)  -->  codec(part).decode, .encode
                     the block of settings

A format is one class in one module of this folder, and one row of format_table.py. The keys of a format stand beside
the other keys of a stream in the pipeline file; the values that the file gives become its block of settings, a frozen
dataclass. A file that gives the key of another format is refused.

`sluice check` imports these modules, so they import neither numpy nor pyarrow nor compiled kernels when they are loaded
(together 0.2 s of processor time); `codec` may.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from sluice.model.errors import AS_WRITTEN
from sluice.model.members import Members
from sluice.model.spec import Coding, FormatOptions
from sluice.model.types import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from sluice.wire.decoded_records import Decoded


class Codec(NamedTuple):
    """A decoder from byte values to tuples, and an encoder back. Both process a batch at a time.

    refused   the rows of tuples that cannot be encoded, with their reasons; `encode` gets none of them
    """

    decode: Callable[[pa.BinaryArray], Decoded]
    encode: Callable[[pa.RecordBatch], pa.BinaryArray]
    refused: Callable[[pa.RecordBatch], dict[int, str]] = lambda _: {}


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a record (value, key or one header): its coding, and the attributes that it has.

    `defaults` has the values of attributes that a record lacks. `subject` is the name of the part in the schema
    registry; `registry` has the registry's properties. `written` says whether an operator writes the part.
    """

    coding: Coding
    schema: Schema
    defaults: Mapping[str, Any] = field(default_factory=dict)
    subject: str = ""
    registry: tuple[tuple[str, str], ...] = ()
    written: bool = False
    #: where the part has its attributes, and in which spelling, if not under their names
    members: Members = field(default_factory=dict)
    #: the attributes of the stream that are in other parts of the record
    elsewhere: frozenset[str] = frozenset()

    @property
    def options(self) -> Any:  # noqa: ANN401 - the block of the part's own format
        return self.coding.options


@dataclass(frozen=True, slots=True)
class FormatKey:
    """A key of the pipeline file that has a setting of a format.

    noun        what the key holds, for the message that refuses it beside another format
    annotation  the type of its values, as pydantic understands it
    field       pydantic's `Field`: its default, its description and the limits of its values
    of_key      its description in the block `key:`, where the format codes the keys of records; "" if the key does not
                stand there. Its default there is null
    """

    noun: str
    annotation: object
    field: Any
    of_key: str = ""


class Finder(Protocol):
    """Reports the problems of a format at its keys in the pipeline file. A format gets it as an argument."""

    @property
    def folder(self) -> Path:
        """The folder of the pipeline file, from which paths in it start."""

    def problem(self, key: str, expected: str, got: str | None = AS_WRITTEN) -> None:
        """Reports a problem of this key. `got` is None where the file lacks what is expected."""


class Format(ABC):
    """A format. Its instances have no state: what the pipeline file sets is in the options of a coding."""

    #: the keys of the pipeline file that only this format, or formats that share them, has
    keys: ClassVar[Mapping[str, FormatKey]] = {}
    #: whether the format may code the keys of records, too
    in_keys: ClassVar[bool] = False
    #: whether the values are trees, in which a path of several steps leads to an attribute (PA5)
    has_paths: ClassVar[bool] = False
    #: whether an attribute may be the whole value (PA1)
    has_documents: ClassVar[bool] = False
    #: whether attributes may be coerced, and times may have a unit and a pattern (PA10 to PA12)
    coerces: ClassVar[bool] = False
    #: whether it reads a list in place of a map that a record has as a list of keys and values (pair_lists.py)
    lists_pairs: ClassVar[bool] = False
    #: whether the pipeline file must name a schema registry
    needs_registry: ClassVar[bool] = False
    #: the keys from whose values the attributes of a stream without `schema` follow
    schema_keys: ClassVar[tuple[str, ...]] = ()

    def options(self, values: Mapping[str, Any], finder: Finder) -> FormatOptions:
        """The block of settings. `values` has the values of `keys`. Reports values that are wrong by themselves."""
        return FormatOptions()

    def attributes(self, options: Any, finder: Finder) -> Schema | None:  # noqa: ANN401
        """The attributes that follow from a key of `schema_keys`. Reports why they do not, and then returns None."""
        return None

    def check(self, part: Part, finder: Finder) -> None:  # noqa: B027 - most formats code all attributes
        """Reports why the format cannot code the attributes of this part."""

    @abstractmethod
    def codec(self, part: Part) -> Codec:
        """The decoder and the encoder of a part that passed `check`."""


def names_of(schema: Schema) -> str:
    """The names of the attributes, for messages."""
    return ", ".join(name for name, _ in schema) or "none"
