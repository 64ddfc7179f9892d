"""The checkpoint store in an object store: S3, Google Cloud Storage, Azure Blob Storage.

The client is `obstore`, the Python package of the Rust library object_store (see docs/rejected.md). An object becomes
visible when it is complete: a small one is one request, a large one a multipart upload whose last request makes it
visible. The parts of an upload that was interrupted are never visible; a life cycle rule of the bucket removes them.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache, partial
from typing import Any, BinaryIO, Self, cast

from sluice.checkpoint.checkpoint_store import StoreError, StoreRefusedError, Write
from sluice.model.secrets import masked
from sluice.package_extras import install

#: bytes of one part of a multipart upload
PART = 8 << 20
#: time-outs of a request and of a connection, and how often and for how long a request is repeated
TIMEOUTS = {"timeout": "60s", "connect_timeout": "10s"}
RETRIES = {"max_retries": 6, "retry_timeout": timedelta(seconds=60)}
#: answers that no repetition changes, in messages of the library that have no class of their own
REFUSED = re.compile(r"status code: 40[13]|NoSuchBucket")
#: what a message of the library has behind its text
DETAILS = "\n\nDebug source:"
#: keys of `state_options` that are settings of the HTTP client, also with a prefix. The library panics if it finds them
#: among the settings of the store
CLIENT_OPTIONS = {
    "allow_http", "allow_invalid_certificates", "connect_timeout", "default_content_type", "http1_only", "http2_only",
    "http2_keep_alive_interval", "http2_keep_alive_timeout", "http2_keep_alive_while_idle", "http2_max_frame_size",
    "pool_idle_timeout", "pool_max_idle_per_host", "proxy_ca_certificate", "proxy_excludes", "proxy_url",
    "randomize_addresses", "read_timeout", "timeout", "user_agent",
}  # fmt: skip
PREFIX = re.compile(r"^(aws|google|azure)_")


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """The objects below a URL such as `s3://bucket/prefix`. Contract: `CheckpointStore`.

    `options` are settings of the library, beside those that it takes from the environment (`AWS_...`, for instance).
    """

    url: str
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def get(self, name: str) -> RemoteObject:
        with self._converting(name):
            head = _library().head(self._client, name)
            return RemoteObject(self.location(name), int(head["size"]), self._client, name)

    def put(self, name: str, write: Write) -> None:
        with self._converting(name):
            upload = Upload(
                _library().open_writer(self._client, name, buffer_size=PART), partial(self._converting, name)
            )
        write(cast("BinaryIO", upload))  # an error leaves the upload without its end: no object appears
        upload.close()

    def create(self, name: str, data: bytes) -> bool:
        try:
            with self._converting(name):
                _library().put(self._client, name, data, mode="create")
        except FileExistsError:
            return False
        return True

    def list(self, prefix: str = "", *, incomplete: bool = False) -> Iterator[str]:
        if incomplete:
            return
        folder = prefix.rpartition("/")[0]
        with self._converting(prefix):
            names = [entry["path"] for page in _library().list(self._client, folder or None) for entry in page]
        yield from (name for name in names if name.startswith(prefix))

    def delete(self, name: str) -> None:
        with self._converting(name):
            try:
                _library().delete(self._client, name)
            except FileNotFoundError:
                return

    def location(self, name: str = "") -> str:
        return f"{self.url}/{name}" if name else self.url

    @property
    def _client(self) -> Any:  # noqa: ANN401 - the library may not be installed
        return _client(self.url, self.options)

    @contextmanager
    def _converting(self, name: str) -> Iterator[None]:
        """Turns the errors of the library into the errors of the contract."""
        errors = _errors()
        try:
            yield
        except StoreError:
            raise
        except errors.AlreadyExistsError:
            raise FileExistsError(self.location(name)) from None
        except (OSError, errors.BaseError) as error:
            text = self._text(name, error)
            if REFUSED.search(text) or isinstance(error, errors.PermissionDeniedError | errors.UnauthenticatedError):
                raise StoreRefusedError(text) from None
            if isinstance(error, FileNotFoundError):
                raise FileNotFoundError(self.location(name)) from None
            raise StoreError(text) from None

    def _text(self, name: str, error: Exception) -> str:
        return f"{self.location(name)}: {_short(error)}"


@dataclass(slots=True)
class Upload:
    """The file object that a `put` writes to. `converting` replaces errors of the library by errors of the contract."""

    writer: Any
    converting: Callable[[], AbstractContextManager[None]]

    def write(self, data: bytes) -> None:
        with self.converting():
            self.writer.write(data)

    def close(self) -> None:
        with self.converting():
            self.writer.close()


@dataclass(slots=True)
class RemoteObject:
    """An object that is read in ranges (contract: `StoredObject`)."""

    location: str
    size: int
    client: Any = field(repr=False)
    name: str

    def read_into(self, start: int, room: memoryview) -> int:
        length = max(0, min(len(room), self.size - start))
        if length:
            try:
                room[:length] = memoryview(_library().get_range(self.client, self.name, start=start, length=length))
            except (OSError, _errors().BaseError) as error:
                raise StoreError(f"{self.location}: {_short(error)}") from None
        return length

    def content(self) -> memoryview:
        data = memoryview(bytearray(self.size))
        self.read_into(0, data)
        return data

    def close(self) -> None:
        """Does nothing: each read is a request of its own."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def require_library() -> None:
    """Raises StoreRefusedError if the library is not installed."""
    try:
        _library()
    except ImportError:
        raise StoreRefusedError(install("obstore", "object-store")) from None


@cache
def _library() -> Any:  # noqa: ANN401 - the library may not be installed
    return importlib.import_module("obstore")


@cache
def _errors() -> Any:  # noqa: ANN401 - the library may not be installed
    return importlib.import_module("obstore.exceptions")


@cache
def _client(url: str, options: tuple[tuple[str, str], ...]) -> Any:  # noqa: ANN401
    """The client of this process. Raises StoreRefusedError if an option is unknown or does not fit."""
    require_library()
    store_options = {name: value for name, value in options if PREFIX.sub("", name) not in CLIENT_OPTIONS}
    of_client = {PREFIX.sub("", name): value for name, value in options if name not in store_options}
    try:
        stores = importlib.import_module("obstore.store")
        return stores.from_url(
            url, config=store_options, client_options={**TIMEOUTS, **of_client}, retry_config=RETRIES
        )
    except (_errors().BaseError, ValueError, TypeError) as error:
        raise StoreRefusedError(f"{url}: {_short(error)}") from None


def _short(error: Exception) -> str:
    """The message of the library on one line, without its internal details and without secrets."""
    return " ".join(masked(str(error)).partition(DETAILS)[0].split())
