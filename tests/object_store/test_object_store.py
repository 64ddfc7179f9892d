"""The store of `state:` on a real S3 server: it keeps the contract, and says what is wrong when it cannot."""

from __future__ import annotations

import os
import pickle
import socket
import threading
import time
from itertools import count
from urllib.request import urlopen

import pytest

from sluice.checkpoint import object_store
from sluice.checkpoint.checkpoint_store import StoreError, StoreRefusedError, copy, get_bytes, put_bytes
from sluice.checkpoint.folder_store import FolderStore
from sluice.checkpoint.object_store import ObjectStore
from tests.object_store.s3_server import BUCKET, S3Server
from tests.unit.checkpoint import test_checkpoint_store as contract

pytestmark = pytest.mark.s3

NUMBERS = count()
#: more than two parts of a multipart upload
LARGE = os.urandom(1000) * (2 * object_store.PART // 1000 + 1000)


@pytest.fixture
def store(s3: S3Server) -> ObjectStore:
    return s3.store(f"tests/{next(NUMBERS)}")


@pytest.mark.parametrize(
    "test",
    [
        contract.test_a_range_of_an_object_is_read,
        contract.test_the_content_stays_valid_after_the_object_was_closed_and_replaced,
        contract.test_a_put_replaces_an_older_object,
        contract.test_a_create_does_not_replace_an_object,
        contract.test_an_object_is_invisible_until_its_put_has_ended,
        contract.test_a_put_that_fails_changes_nothing,
        contract.test_deleting_twice_is_deleting_once,
        contract.test_a_store_travels_to_tasks,
        contract.test_the_identity_of_a_checkpoint_is_kept_in_any_store,
        contract.test_snapshots_are_kept_in_any_store,
        contract.test_sparks_logs_are_read_from_any_store,
    ],
    ids=lambda test: test.__name__,
)
def test_the_contract_of_stores(store, test):
    test(store)


@pytest.mark.parametrize("data", [b"", b"x", LARGE], ids=len)
def test_an_object_is_read_as_it_was_put(store, data):
    put_bytes(store, "a/b.state", data)
    assert get_bytes(store, "a/b.state") == data


@pytest.mark.parametrize(
    ("prefix", "expected"), [("", {"a", "b/1", "b/12", "bb"}), ("b/", {"b/1", "b/12"}), ("b/1", {"b/1", "b/12"})]
)
def test_names_are_listed_by_their_beginning(store, prefix, expected):
    for name in ("a", "b/1", "b/12", "bb"):
        put_bytes(store, name, b"x")
    assert set(store.list(prefix)) == expected


def test_a_missing_name_is_reported_as_such(store):
    with pytest.raises(FileNotFoundError):
        store.get("none")


def test_a_large_object_whose_writer_dies_is_never_seen(store):
    """The parts of the upload are there, its end is not."""

    def die(file):
        file.write(LARGE)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.put("large", die)
    assert list(store.list()) == []
    with pytest.raises(FileNotFoundError):
        store.get("large")


def test_an_object_is_copied_into_a_folder_and_back(store, tmp_path):
    folder = FolderStore(tmp_path)
    put_bytes(folder, "buckets/0/7.state", LARGE)
    assert copy(folder, "buckets/0/7.state", store, "snapshots/0/7") == len(LARGE)
    assert copy(store, "snapshots/0/7", folder, "again") == len(LARGE)
    assert get_bytes(folder, "again") == LARGE


# ---- what goes wrong -------------------------------------------------------------------------------------------------


def test_wrong_credentials_are_refused_at_once_and_not_shown(s3):
    store = s3.store("refused", secret_access_key="another-secret")  # noqa: S106
    began = time.monotonic()
    with pytest.raises(StoreRefusedError, match=r"s3://bucket/refused/a: .*SignatureDoesNotMatch") as refused:
        put_bytes(store, "a", b"x")
    assert "another-secret" not in str(refused.value)
    assert "another-secret" not in repr(store)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("url", "options", "words"),
    [
        pytest.param("s3://no-such-bucket/a", {}, "NoSuchBucket", id="no bucket"),
        pytest.param(f"s3://{BUCKET}/a", {"no_such_setting": "1"}, "no_such_setting", id="unknown setting"),
        pytest.param(f"s3://{BUCKET}/a", {"timeout": "soon"}, "soon", id="no duration"),
        pytest.param(f"s3://{BUCKET}/a", {"aws_allow_http": "perhaps"}, "perhaps", id="no truth value"),
    ],
)
def test_a_wrong_setting_is_named(s3, url, options, words):
    store = ObjectStore(url, tuple(sorted((s3.options | options).items())))
    with pytest.raises(StoreRefusedError, match=words):
        put_bytes(store, "a", b"x")


@pytest.fixture
def quick(monkeypatch):
    """Time-outs that a test can wait for."""
    monkeypatch.setattr(object_store, "TIMEOUTS", {"timeout": "2s", "connect_timeout": "1s"})
    monkeypatch.setattr(object_store, "RETRIES", object_store.RETRIES | {"max_retries": 2})
    object_store._client.cache_clear()  # noqa: SLF001
    yield
    object_store._client.cache_clear()  # noqa: SLF001


@pytest.mark.usefixtures("quick")
def test_a_server_that_is_gone_is_an_error_that_names_the_object(s3):
    store = s3.store("gone", endpoint="http://127.0.0.1:1")
    with pytest.raises(StoreError, match="s3://bucket/gone/a") as failed:
        put_bytes(store, "a", b"x")
    assert not isinstance(failed.value, StoreRefusedError)
    assert "\n" not in str(failed.value)


@pytest.mark.usefixtures("quick")
def test_a_server_that_does_not_answer_is_given_up(s3):
    """It accepts connections and is silent."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = s3.store("silent", endpoint=f"http://127.0.0.1:{silent.getsockname()[1]}")
        began = time.monotonic()
        with pytest.raises(StoreError):
            put_bytes(store, "a", b"x")
        assert time.monotonic() - began < 30


class Busy(threading.Thread):
    """Answers every request with 503, as S3 does under load."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.server = socket.create_server(("127.0.0.1", 0))

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server.getsockname()[1]}"

    def run(self) -> None:
        while True:
            try:
                client, _ = self.server.accept()
            except OSError:
                return
            with client:
                client.recv(1 << 16)
                body = b"<Error><Code>SlowDown</Code><Message>reduce your request rate</Message></Error>"
                client.sendall(
                    b"HTTP/1.1 503 Slow Down\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body
                )


@pytest.mark.usefixtures("quick")
def test_a_server_that_is_always_busy_is_an_error(s3):
    busy = Busy()
    busy.start()
    with busy.server, pytest.raises(StoreError, match=r"503|SlowDown"):
        put_bytes(s3.store("busy", endpoint=busy.endpoint), "a", b"x")


def test_the_client_does_not_keep_a_store_from_travelling(store):
    put_bytes(store, "a", b"x")
    assert get_bytes(pickle.loads(pickle.dumps(store)), "a") == b"x"  # noqa: S301


def test_the_server_is_a_real_one(s3):
    """It refuses requests without a signature."""
    with pytest.raises(OSError, match="403"), urlopen(f"{s3.endpoint}/{BUCKET}", timeout=5):  # noqa: S310 - ours
        pass
