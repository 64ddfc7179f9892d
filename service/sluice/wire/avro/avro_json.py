"""Values of Avro as JSON, one value at a time, for attributes of the type json (AV4).

The bytes have passed the interpreter of avro_scan.py, so they are a value of their schema.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from sluice.model.avro_schema import DAY, Avro, Node
from sluice.wire.json.json_values import MAX_SCALE, finite_or_word, time_text

#: the deepest nesting of values
MAX_DEPTH = 100
#: the most items of an array that take no bytes
MAX_EMPTY = 1000


class AvroJsonError(ValueError):
    """A value has no JSON: it is nested too deeply, or a time has no date."""


def json_text(avro: Avro, content: bytes) -> str:
    """The JSON of a value. Raises AvroJsonError.

    Implements AV4 of the reference.
    """
    try:
        return orjson.dumps(_Value(avro, content).read(avro.root, 0)).decode()
    except (OverflowError, orjson.JSONEncodeError) as error:
        raise AvroJsonError(str(error)) from None


def scaled_text(value: bytes, scale: int) -> str:
    """The digits of an unscaled number in two's complement, the high byte first."""
    unscaled = int.from_bytes(value, "big", signed=True)
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    whole, fraction = digits[: len(digits) - scale], digits[len(digits) - scale :]
    return ("-" if unscaled < 0 else "") + whole + ("." + fraction if scale else "")


def variable_text(content: bytes) -> str:
    """The digits of a number with a scale of its own, from the bytes of its record; empty if the scale is beyond that
    of databases (AV9).
    """
    value = _Value(Avro(Node("null")), content)
    scale, size = value.long(), value.long()
    unscaled = int.from_bytes(value.take(size), "big", signed=True)
    return f"{unscaled}e{-scale}" if abs(scale) <= MAX_SCALE else ""


class _Value:
    """Reads the bytes of a value from their beginning to their end."""

    def __init__(self, avro: Avro, content: bytes) -> None:
        self.avro, self.content, self.at = avro, content, 0

    def read(self, node: Node, depth: int) -> Any:  # noqa: ANN401, PLR0911 - JSON, a case for each kind of type
        node = self.avro.meant(node)
        if depth > MAX_DEPTH:
            raise AvroJsonError(f"values are nested more than {MAX_DEPTH} deep")
        match node.type:
            case "union":
                return self.read(node.inner[self.long()], depth + 1)
            case "record":
                return {field.name: self.read(field.node, depth + 1) for field in node.fields}
            case "array":
                return [self.read(node.inner[0], depth + 1) for _ in self.items(node.inner[0])]
            case "map":
                return {self.text(): self.read(node.inner[0], depth + 1) for _ in self.items(node)}
            case "enum":
                return node.symbols[self.long()]
            case "fixed" | "bytes":
                return self.binary(node, self.take(node.size if node.type == "fixed" else self.long()))
            case "int" | "long":
                return self.whole(node, self.long())
        return LEAVES[node.type](self)

    def items(self, item: Node) -> Iterator[None]:
        while count := self.long():
            if count < 0:
                count, _ = -count, self.long()
            if count > max(len(self.content) - self.at, MAX_EMPTY):
                raise AvroJsonError(f"an array of more than {MAX_EMPTY} values of {item.type} without bytes")
            yield from (None for _ in range(count))

    def take(self, size: int) -> bytes:
        self.at += size
        return self.content[self.at - size : self.at]

    def text(self) -> str:
        return self.take(self.long()).decode()

    def long(self) -> int:
        bits = shift = 0
        while True:
            byte = self.content[self.at]
            self.at += 1
            bits |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:  # noqa: PLR2004 - the last byte of a number
                return (bits >> 1) ^ -(bits & 1)

    def real(self, form: str) -> float | str:
        return finite_or_word(struct.unpack(form, self.take(struct.calcsize(form)))[0])  # type: ignore[no-any-return]

    def binary(self, node: Node, value: bytes) -> object:
        if node.scaled:
            return orjson.Fragment(scaled_text(value, node.scale))
        return b64encode(value).decode()

    def whole(self, node: Node, number: int) -> int | str:
        if not node.unit:
            return number
        text = time_text(number * node.unit)
        return text[: text.index("T")] if node.unit == DAY else text


#: the types whose values do not depend on more of the schema
LEAVES: dict[str, Callable[[_Value], Any]] = {
    "null": lambda _: None,
    "boolean": lambda value: value.take(1) != b"\0",
    "float": lambda value: value.real("<f"),
    "double": lambda value: value.real("<d"),
    "string": _Value.text,
}
