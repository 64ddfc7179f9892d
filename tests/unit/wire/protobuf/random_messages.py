"""Random schemas of Protocol Buffers and random messages of them, made and read by Google's own implementation."""

from __future__ import annotations

import math
from random import Random

from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory, timestamp_pb2, wrappers_pb2

from sluice.model.protobuf.proto_schema import SCALARS
from sluice.time_units import SECOND

TYPES = descriptor_pb2.FieldDescriptorProto
KINDS = sorted(SCALARS)
WELL_KNOWN = ("Timestamp", "Duration", "Int64Value", "DoubleValue", "StringValue", "BoolValue", "UInt32Value")
IMPORTS = [one.DESCRIPTOR.name for one in (timestamp_pb2, duration_pb2, wrappers_pb2)]
EXTREMES = [0, 1, -1, 2**31 - 1, -(2**31), 2**32 - 1, 2**63 - 1, -(2**63), 127, 128, 300]


def schema(random: Random, number: int) -> descriptor_pb2.FileDescriptorProto:
    """A file with the message `M`, an inner message and an enum."""
    proto3 = random.random() < 0.6
    file = descriptor_pb2.FileDescriptorProto(name=f"random{number}.proto", package=f"r{number}", dependency=IMPORTS)
    file.syntax = "proto3" if proto3 else "proto2"
    enum = file.enum_type.add(name="Side")
    for name, value in (("NONE", 0), ("BUY", 1), ("SELL", -5), ("OTHER", 7)):
        enum.value.add(name=name, number=value)
    message = file.message_type.add(name="M")
    inner = file.message_type.add(name="Inner")
    inner.field.add(name="x", number=1, type=TYPES.TYPE_INT32, label=1)
    inner.field.add(name="more", number=2, type=TYPES.TYPE_MESSAGE, type_name=f".r{number}.Inner", label=1)
    if random.random() < 0.4:
        message.oneof_decl.add(name="choice")
    numbers = random.sample([*range(1, 20), 100, 2047, 2048, 2**29 - 1], random.randint(1, 9))
    for place, key in enumerate(numbers):
        _field(random, message, place, key, number, proto3=proto3)
    for one in message.field:  # synthetic oneofs come after the others
        if one.proto3_optional:
            one.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{one.name}")
    if message.oneof_decl and not any(one.HasField("oneof_index") and one.oneof_index == 0 for one in message.field):
        extra = message.field.add(name="extra", number=30, type=TYPES.TYPE_STRING, label=1)
        extra.oneof_index = 0
    return file


def _field(random: Random, message, place: int, key: int, number: int, *, proto3: bool) -> None:
    one = message.field.add(name=f"f{place}", number=key, label=1)
    roll = random.random()
    if roll < 0.7:
        one.type = getattr(TYPES, f"TYPE_{random.choice(KINDS).upper()}")
    elif roll < 0.8:
        one.type, one.type_name = TYPES.TYPE_ENUM, f".r{number}.Side"
    elif roll < 0.95:
        one.type, one.type_name = TYPES.TYPE_MESSAGE, f".google.protobuf.{random.choice(WELL_KNOWN)}"
    else:
        one.type, one.type_name = TYPES.TYPE_MESSAGE, f".r{number}.Inner"
    plain = one.type != TYPES.TYPE_MESSAGE
    roll = random.random()
    if roll < 0.25:
        one.label = 3
        if plain and one.type not in (TYPES.TYPE_STRING, TYPES.TYPE_BYTES) and random.random() < 0.5:
            one.options.packed = random.random() < 0.5
    elif roll < 0.45 and message.oneof_decl and message.oneof_decl[0].name == "choice":
        one.oneof_index = 0
    elif roll < 0.7 and proto3 and plain:
        one.proto3_optional = True
    elif roll < 0.6 and not proto3 and one.type == TYPES.TYPE_INT32:
        one.default_value = "42"


def message_class(file: descriptor_pb2.FileDescriptorProto):
    pool = descriptor_pool.DescriptorPool()
    for module in (timestamp_pb2, duration_pb2, wrappers_pb2):
        known = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(known)
        pool.Add(known)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.M"))


# ---- values ----------------------------------------------------------------------------------------------------------


def fill(random: Random, message) -> None:
    """Sets some fields of a message to random values."""
    for one in message.DESCRIPTOR.fields:
        if random.random() < 0.3:
            continue
        if one.is_repeated:
            for _ in range(random.randint(0, 3)):
                if one.message_type:
                    _fill_message(random, getattr(message, one.name).add())
                else:
                    getattr(message, one.name).append(value(random, one))
        elif one.message_type:
            inner = getattr(message, one.name)
            inner.SetInParent()
            _fill_message(random, inner)
        else:
            setattr(message, one.name, value(random, one))


def _fill_message(random: Random, inner) -> None:
    match inner.DESCRIPTOR.name:
        case "Timestamp" | "Duration" as name:
            inner.seconds = random.choice([0, 1, 1_700_000_000, -1, random.randint(-(2**33), 2**33)])
            inner.nanos = random.choice([0, 1, 999_999_999, random.randint(0, 999_999_999)])
            if name == "Duration" and inner.seconds < 0:
                inner.nanos = -inner.nanos
        case "Inner":
            inner.x = random.randint(-5, 5)
            if random.random() < 0.3:
                _fill_message(random, inner.more)
        case _:
            inner.value = value(random, inner.DESCRIPTOR.fields[0])


def value(random: Random, one):
    match one.cpp_type:
        case one.CPPTYPE_BOOL:
            return random.random() < 0.5
        case one.CPPTYPE_STRING:
            text = random.choice(["", "a", "é", "𝄞", "x" * 200])
            return text.encode() if one.type == one.TYPE_BYTES else text
        case one.CPPTYPE_DOUBLE | one.CPPTYPE_FLOAT:
            number = random.choice([0.0, -0.0, 1.5, -2.25, math.inf, math.nan, 1e30])
            return number if one.cpp_type == one.CPPTYPE_DOUBLE or abs(number) < 1e38 or math.isnan(number) else 1.5
        case one.CPPTYPE_ENUM:
            return random.choice([0, 1, -5, 7])
    low, high = {
        one.CPPTYPE_INT32: (-(2**31), 2**31 - 1), one.CPPTYPE_UINT32: (0, 2**32 - 1),
        one.CPPTYPE_INT64: (-(2**63), 2**63 - 1), one.CPPTYPE_UINT64: (0, 2**63 - 1),
    }[one.cpp_type]  # fmt: skip
    number = random.choice([*EXTREMES, random.randint(low, high)])
    return number if low <= number <= high else 3


# ---- what an attribute has, as Google's implementation reads it ------------------------------------------------------


class OutOfRangeError(ValueError):
    """The value of a field is beyond 64 bits, or is no time."""


def expected(message, one):
    """The value of the attribute for a field: None if it is not set, or for a message that has no type."""
    if one.is_repeated:
        return [_plain(item, one) for item in getattr(message, one.name)]
    if one.has_presence and not message.HasField(one.name):
        return None
    return _plain(getattr(message, one.name), one)


def _plain(item, one):
    if one.message_type is not None:
        return _of_message(item)
    if one.enum_type is not None:
        known = one.enum_type.values_by_number.get(item)
        return str(item) if known is None else known.name
    if isinstance(item, bytes):
        return item.decode()
    if isinstance(item, int) and item >= 2**63:
        raise OutOfRangeError
    return item


def _of_message(item):
    name = item.DESCRIPTOR.name
    if name in ("Timestamp", "Duration"):
        least = 0 if name == "Timestamp" else -SECOND
        if abs(item.seconds) > 2**63 // SECOND - 1 or not least <= item.nanos < SECOND:
            raise OutOfRangeError
        return item.seconds * SECOND + item.nanos
    return item.value
