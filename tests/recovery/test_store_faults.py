"""The store of `state:` fails while a service uses it, or when a start needs it. The store is a real S3 server.

SLUICE_TEST_AWAY=3600 lets the store be away for an hour where the tests else let it be away for some seconds.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from sluice.checkpoint.checkpoint_store import get_bytes, put_bytes
from sluice.checkpoint.folder_store import PART, FolderStore
from sluice.kafka.embedded_broker import EmbeddedBroker
from tests.object_store.conftest import s3 as s3  # noqa: PLC0414 - a fixture
from tests.object_store.s3_server import SECRET, S3Server
from tests.recovery.harness.one_window import ONE_WINDOW
from tests.recovery.harness.output_reader import Record
from tests.recovery.harness.proxy import Proxy
from tests.recovery.harness.service import TOPIC_PARTITIONS, Service

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.s3, pytest.mark.slow]

#: seconds for which a store is away
AWAY = float(os.environ.get("SLUICE_TEST_AWAY", "20"))

PIPELINE = """
max_records_per_batch: 40
clock: records
state: s3://bucket/{prefix}
state_options: {options}
snapshot_interval: 0.5
snapshot_records: 30
"""


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[Proxy]:
    """A way to the store that a test can interrupt."""
    with Proxy(s3.endpoint.removeprefix("http://")) as one:
        yield one


def pipeline(s3: S3Server, prefix: str, **options: str) -> str:
    return PIPELINE.format(prefix=prefix, options=s3.options | options) + ONE_WINDOW


def tuples(first: int, count: int = 100) -> list[Record]:
    return [{"k": f"key {n % 7}", "v": n} for n in range(first, first + count)]


def metric(service: Service, name: str) -> float:
    """The value of a metric of the service; -1 if it has none."""
    _, page = service.page("/metrics")
    found = re.search(rf"^{name}(?:{{[^}}]*}})? (\S+)$", page, re.MULTILINE)
    return float(found[1]) if found else -1


def snapshots(s3: S3Server, prefix: str) -> set[str]:
    return {name for name in s3.store(prefix).list() if name.endswith(".state")}


def local_bytes(service: Service) -> int:
    """The bytes of all snapshots and logs of buckets in the checkpoint folder, which the service changes meanwhile."""
    total = 0
    for file in (service.checkpoint / "buckets").rglob("*.*"):
        with suppress(FileNotFoundError):
            total += file.stat().st_size
    return total


def goes_on(service: Service, first: int) -> None:
    """It reads a hundred more tuples, and all outputs are right."""
    service.send("in", tuples(first))
    service.await_outputs()


def test_a_store_that_cannot_be_reached(services, s3, proxy):
    """At the first start, later, and when a restore needs it: only the restore waits for it."""
    text = pipeline(s3, "gone", endpoint=f"http://{proxy.address}")
    service = services(text, http=True)
    service.create("in")
    proxy.refuse()
    service.start()
    goes_on(service, 0)
    service.wait_until(lambda: metric(service, "sluice_store_up") == 0, "the metric says that the store is gone")
    assert "the service continues without" in service.log()
    proxy.accept()
    service.wait_until(lambda: snapshots(s3, "gone"), "snapshots are in the store, without a new start")
    service.wait_until(lambda: metric(service, "sluice_store_up") == 1, "the metric says that the store answers")
    proxy.refuse()
    proxy.reset()
    goes_on(service, 100)
    service.wait_until(lambda: metric(service, "sluice_store_up") == 0, "the metric says that the store is gone")
    goes_on(service, 200)
    in_store = max(map(version, snapshots(s3, "gone")))
    local = FolderStore(service.checkpoint)
    service.wait_until(
        lambda: any(int(Path(one).stem) > in_store for one in local.list("buckets/") if one.endswith(".state")),
        "the folder has newer snapshots than the store, so the log in it does not grow",
    )
    service.lose_machine()
    service.start()
    assert service.await_end() == 3
    assert "has to be restored, and the store of `state:` cannot be used" in service.sentence
    proxy.accept()
    service.start()
    goes_on(service, 300)
    assert "from=the store" in service.log()
    service.end()


def test_a_store_that_is_away_for_long(services, s3, proxy):
    """The service goes on, its own files stay as small as before, and then the store gets the next snapshots."""
    service = services(pipeline(s3, "away", endpoint=f"http://{proxy.address}"), http=True)
    service.create("in")
    service.start()
    goes_on(service, 0)
    service.wait_until(lambda: snapshots(s3, "away"), "the store has a snapshot")
    proxy.refuse()
    proxy.reset()
    before, sizes, end = snapshots(s3, "away"), [], time.monotonic() + AWAY
    while time.monotonic() < end:
        service.send("in", tuples(len(service.events)))
        service.await_rest()
        sizes.append(local_bytes(service))
        time.sleep(0.5)
    service.await_outputs()
    assert metric(service, "sluice_store_up") == 0
    assert snapshots(s3, "away") == before
    assert 0 < sizes[-1] < 2 * max(sizes[: len(sizes) // 2 + 1])
    proxy.accept()
    service.wait_until(
        lambda: len({bucket(name) for name in snapshots(s3, "away") - before}) == 2,
        "the store has a newer snapshot of each bucket",
    )
    service.lose_machine()
    service.start()
    goes_on(service, len(service.events))
    assert "from=the store" in service.log()
    service.end()


def test_a_store_that_does_not_answer(services, s3, proxy):
    """Its requests are held: the service goes on, and ends in time."""
    service = services(pipeline(s3, "silent", endpoint=f"http://{proxy.address}"))
    service.create("in")
    service.start()
    goes_on(service, 0)
    service.wait_until(lambda: snapshots(s3, "silent"), "the store has a snapshot")
    proxy.hold_requests()
    goes_on(service, 100)
    service.end(30)
    proxy.resume()


def test_wrong_credentials(services, s3):
    service = services(pipeline(s3, "wrong", secret_access_key="another-secret"))  # noqa: S106
    service.create("in")
    service.start()
    assert service.await_end() == 3
    assert "s3://bucket/wrong" in service.sentence
    assert "SignatureDoesNotMatch" in service.sentence
    assert "another-secret" not in service.whole_log()
    assert SECRET not in service.whole_log()


def lost(services, s3: S3Server, prefix: str) -> Service:
    """A service whose machine is lost, with two snapshots of each of its two buckets in the store."""
    service = services(pipeline(s3, prefix))
    service.create("in")
    service.start()
    first = 0
    while len(snapshots(s3, prefix)) < 4:
        goes_on(service, first)
        first += 100
    service.lose_machine()
    return service


@pytest.mark.parametrize(
    "damage", [lambda data: data[: len(data) // 2], lambda data: data[:-1] + bytes([data[-1] ^ 1])], ids=["half", "bit"]
)
def test_damaged_snapshots(services, s3, damage, request):
    """Of each bucket the newest one: the one before it is used, and the log says so."""
    prefix = f"damaged-{request.node.callspec.id}"
    service, store = lost(services, s3, prefix), s3.store(prefix)
    newest = {bucket(name): name for name in sorted(snapshots(s3, prefix), key=version)}
    for name in newest.values():
        put_bytes(store, name, damage(get_bytes(store, name)))
    service.start()
    goes_on(service, len(service.events))
    for name in newest.values():
        assert f"the state of version {version(name)} in the store cannot be used" in service.log()
    service.end()


def test_a_snapshot_that_is_listed_and_absent_and_one_that_is_half_written(services, tmp_path):
    """The store is a folder. The newest snapshot of each bucket is a link to nothing; a killed copy has left a part."""
    settings = f"state: {tmp_path}\nsnapshot_interval: 0.5\nsnapshot_records: 30\nmax_records_per_batch: 40\n"
    service = services(f"{settings}clock: records\n{ONE_WINDOW}")
    service.create("in")
    service.start()
    while len(list(tmp_path.rglob("*.state"))) < 4:
        goes_on(service, len(service.events))
    service.lose_machine()
    newest = {path.parent.name: path for path in sorted(tmp_path.rglob("*.state"), key=lambda path: version(path.name))}
    for path in newest.values():
        path.with_name(f"{version(path.name) + 1}-0123456789abcdef.state.0a1b{PART}").write_bytes(
            path.read_bytes()[:99]
        )
        path.unlink()
        path.symlink_to(tmp_path / "nothing")
    service.start()
    goes_on(service, len(service.events))
    for path in newest.values():
        assert f"the state of version {version(path.name)} in the store cannot be used" in service.log()
    assert "0123456789abcdef" not in service.log()
    service.end()


def test_a_clock_of_the_store_that_is_wrong(services, s3, proxy, tmp_path):
    """The store refuses each signature. The service goes on as without a store, and a restore names the cause."""
    service = services(pipeline(s3, "skewed", endpoint=f"http://{proxy.address}"), http=True)
    service.create("in")
    service.start()
    goes_on(service, 0)
    service.wait_until(lambda: snapshots(s3, "skewed"), "the store has a snapshot")
    with S3Server(tmp_path, accepts_times=False) as wrong:
        proxy.forward_to(wrong.endpoint.removeprefix("http://"))
        proxy.reset()
        goes_on(service, 100)
        service.wait_until(lambda: metric(service, "sluice_store_up") == 0, "the metric says that the store refuses")
        assert "RequestTimeTooSkewed" in service.log()
        service.lose_machine()
        service.start()
        assert service.await_end() == 3
        assert "RequestTimeTooSkewed" in service.sentence
    proxy.forward_to(s3.endpoint.removeprefix("http://"))
    service.start()
    goes_on(service, 200)
    service.end()


def bucket(name: str) -> str:
    return name.split("/")[-2]


def version(name: str) -> int:
    return int(name.rsplit("/", maxsplit=1)[-1].partition("-")[0])


def test_records_that_a_restore_needs_are_deleted(services, s3):
    """The start is refused before anything is changed; the message names the topic and the offset."""
    service = lost(services, s3, "deleted")
    topic = service.topic("in")
    service.start()
    goes_on(service, len(service.events))
    service.at("written")  # no snapshot is of this batch
    service.send("in", tuples(len(service.events)))
    service.await_moment("written")
    service.lose_machine()
    ends = [TopicPartition(topic, place, -1) for place in range(TOPIC_PARTITIONS)]
    admin = AdminClient(service.kafka)
    for deleted in admin.delete_records(ends).values():
        deleted.result()
    service.start()
    assert service.await_end() == 4
    assert re.search(rf"topic {topic}, topic partition \d, from offset \d+ on, but Kafka has deleted", service.sentence)
    assert "retention" in service.sentence


def test_two_clusters_with_one_prefix(services, s3):
    service = lost(services, s3, "shared")
    with EmbeddedBroker() as broker:
        other = services(service.text, name=service.name, kafka={"bootstrap.servers": broker.bootstrap})
        other.create("in")
        other.start()
        assert other.await_end() == 4
        assert f"it belongs to the checkpoint {identity(s3, 'shared', service)}" in other.sentence
        assert "Give each cluster a prefix of its own" in other.sentence
    service.start()
    goes_on(service, len(service.events))
    service.end()


def identity(s3: S3Server, prefix: str, service: Service) -> str:
    """The id of the checkpoint that owns a prefix of the store."""
    owner = get_bytes(s3.store(f"{prefix}/{service.name}"), "owner.json").decode()
    return str(re.findall(r'"checkpoint": "([^"]+)"', owner)[0])
