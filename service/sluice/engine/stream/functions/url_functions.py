"""Scalar functions of URLs, hashes and encodings of texts and bytes."""

from __future__ import annotations

import hashlib
import zlib
from base64 import b64encode
from collections.abc import Callable
from urllib.parse import SplitResult, parse_qs, quote_plus, unquote_plus, urlsplit

from sluice.engine.stream.functions.column_arguments import INT64, STRING, Column, Kernel, by_name, by_row

#: word of a part -> the part of a split URL; None if the URL has none
PARTS: dict[str, Callable[[SplitResult], object]] = {
    "scheme": lambda url: url.scheme, "host": lambda url: url.hostname, "port": lambda url: url.port,
    "path": lambda url: url.path, "query": lambda url: url.query, "fragment": lambda url: url.fragment,
    "user": lambda url: url.username,
}  # fmt: skip


def url_part(url: Column, part: Column) -> Column:
    """Null if the URL has no such part, or is no URL."""
    return by_row(_part, STRING, url, part)


def _part(url: str, part: str) -> str | None:
    try:
        value = PARTS[part](urlsplit(url))
    except ValueError:  # a port that is no number, or brackets without an address
        return None
    return None if value in (None, "") else str(value)


def url_parameter(url: Column, name: Column) -> Column:
    """The first value of the parameter, decoded; null if the query has none."""
    return by_row(_parameter, STRING, url, name)


def _parameter(url: str, name: str) -> str | None:
    try:
        values = parse_qs(urlsplit(url).query, keep_blank_values=True)
    except ValueError:
        return None
    return values.get(name, [None])[0]


def url_encode(text: Column) -> Column:
    return by_row(quote_plus, STRING, text)


def url_decode(text: Column) -> Column:
    return by_row(unquote_plus, STRING, text)


def base64(text: Column) -> Column:
    return by_row(lambda t: b64encode(_bytes(t)).decode(), STRING, text)


def utf8_text(content: Column) -> Column:
    """The text of UTF-8 bytes; no value for others."""
    return by_row(_decoded, STRING, content)


def _decoded(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def hexadecimal(content: Column) -> Column:
    return by_row(lambda t: _bytes(t).hex(), STRING, content)


def crc32(content: Column) -> Column:
    return by_row(lambda t: zlib.crc32(_bytes(t)), INT64, content)


def _digest(name: str) -> Kernel:
    return lambda content: by_row(
        lambda t: hashlib.new(name, _bytes(t), usedforsecurity=False).hexdigest(), STRING, content
    )


def _bytes(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode()


KERNELS = {
    **by_name(url_part, url_parameter, url_encode, url_decode, base64, utf8_text, hexadecimal, crc32),
    **{name: _digest(name) for name in ("md5", "sha1", "sha256", "sha512")},
}
