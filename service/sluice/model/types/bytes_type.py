"""The type bytes."""

from __future__ import annotations

import json

from sluice.model.types.type_contract import Type, Value


class BytesType(Type):
    """Sequences of bytes. A value of the model is their base64 text (RFC 4648, with padding)."""

    word = "bytes"
    aliases = ("blob",)
    foreign = ("binary", "varbinary", "bytea", "fixed")
    empty = ""
    samples = ("AA==", "AQ==")
    sortable = True

    def literal(self, value: Value) -> str:
        return json.dumps(value)


BYTES = BytesType()
