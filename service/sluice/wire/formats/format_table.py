"""The table of formats: the words of `format:` in the pipeline file. A new format is one more row."""

from __future__ import annotations

from collections.abc import Mapping

from sluice.wire.formats.avro_format import AvroFormat, ConfluentFormat
from sluice.wire.formats.csv_format import CsvFormat
from sluice.wire.formats.format_contract import Codec, Format, Part
from sluice.wire.formats.json_confluent_format import JsonConfluentFormat
from sluice.wire.formats.json_format import JsonFormat
from sluice.wire.formats.pair_lists import as_lists, with_maps
from sluice.wire.formats.plain_format import RawFormat, TextFormat
from sluice.wire.formats.protobuf_format import ProtobufConfluentFormat, ProtobufFormat

FORMATS: Mapping[str, Format] = {
    "json": JsonFormat(),
    "json-confluent": JsonConfluentFormat(),
    "avro": AvroFormat(),
    "avro-confluent": ConfluentFormat(),
    "protobuf": ProtobufFormat(),
    "protobuf-confluent": ProtobufConfluentFormat(),
    "csv": CsvFormat(),
    "text": TextFormat(),
    "raw": RawFormat(),
}


def codec(part: Part) -> Codec:
    """The decoder and the encoder of this part of a record."""
    form = FORMATS[part.coding.format]
    return with_maps(form.codec(as_lists(part)), part) if form.lists_pairs else form.codec(part)
