"""The snapshots of a pipeline in the store of `state:`, from which a lost checkpoint is restored.

    owner.json                                              the pipeline, its checkpoint, the Kafka cluster
    snapshots/<buckets>/<bucket>/<version>-<digest>.state   a snapshot, as in the checkpoint folder

The digest is the beginning of the digest of the batch before the version. A restore compares it with the ledger's, so
it never uses a snapshot of a batch that the ledger does not have. Snapshots belong to a number of buckets: snapshots of
another number have other keys (restore.py). A pipeline, or a stage, has a prefix of its own in the store. The owner is
written once and with the condition that no owner exists, so of two clusters that use one prefix the second is refused.

A restore also needs the records since the snapshot: `oldest_needed` gets from Kafka the oldest offset of each topic
partition that the restore reads, beside the first offset that it needs. The caller compares them.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import NamedTuple, Self

from sluice.batch.query_plan import Plan
from sluice.checkpoint.checkpoint_folder import snapshot_store_of
from sluice.checkpoint.checkpoint_identity import CheckpointError
from sluice.checkpoint.checkpoint_store import (
    CheckpointStore,
    StoreError,
    StoreRefusedError,
    copy,
    get_bytes,
    put_bytes,
)
from sluice.kafka.range_reader import Offsets, beginnings
from sluice.kafka.requests import REQUEST, clients

OWNER, SNAPSHOTS = "owner.json", "snapshots"
NAME = re.compile(r"(\d+)-([0-9a-f]+)\.state")
#: hexadecimal digits of a digest in a name
DIGITS = 16
#: error numbers of a folder that no repetition changes: it may not be written, or its path is none
REFUSALS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG)


class StoredSnapshot(NamedTuple):
    """A snapshot of a bucket: the version of the state, and the beginning of the digest of the batch before it."""

    version: int
    digest: str

    @property
    def short(self) -> Self:
        """The same with as much of the digest as a name has."""
        return self._replace(digest=self.digest[:DIGITS])


@dataclass(frozen=True, slots=True)
class SnapshotOwner:
    """The pipeline, the checkpoint and the Kafka cluster to which a prefix of the store belongs."""

    pipeline: str
    checkpoint: str
    cluster: str


class SnapshotArchive:
    """The snapshots below a prefix of a store.

    The functions raise StoreError if the store cannot be used. A function that copies or removes one snapshot raises
    any OSError: it may be about that snapshot alone.
    """

    def __init__(self, store: CheckpointStore, buckets: int) -> None:
        self._store = store
        self._prefix = f"{SNAPSHOTS}/{buckets}/"

    @classmethod
    def of(cls, plan: Plan) -> Self | None:
        """The archive of a query; None without `state:`."""
        store = snapshot_store_of(plan.pipeline)
        return None if store is None else cls(store, plan.buckets)

    def claim(self, owner: SnapshotOwner, *, anew: bool = False) -> None:
        """Makes `owner` the owner of the prefix. Raises CheckpointError if the prefix belongs to another one.

        With `anew`, an earlier checkpoint of the same pipeline and cluster gives the prefix up, with its snapshots.
        """
        data = json.dumps(asdict(owner)).encode()
        with self._converting():
            if self._store.create(OWNER, data):
                return
            present_owner = self._owner()
            if present_owner == owner:
                return
            if not anew or (present_owner.pipeline, present_owner.cluster) != (owner.pipeline, owner.cluster):
                raise CheckpointError(self._refused(present_owner, owner))
            for name in list(self._store.list(f"{SNAPSHOTS}/")):
                self._store.delete(name)
            put_bytes(self._store, OWNER, data)

    def snapshots(self, bucket: int) -> list[StoredSnapshot]:
        prefix = f"{self._prefix}{bucket}/"
        with self._converting():
            names = list(self._store.list(prefix))
        return [snapshot for name in names if (snapshot := _named(name.removeprefix(prefix)))]

    def all_snapshots(self, buckets: int) -> dict[int, list[StoredSnapshot]]:
        """The snapshots of each bucket, with one request for all."""
        snapshots: dict[int, list[StoredSnapshot]] = {bucket: [] for bucket in range(buckets)}
        with self._converting():
            for name in self._store.list(self._prefix):
                bucket, _, last = name.removeprefix(self._prefix).partition("/")
                if (snapshot := _named(last)) and bucket.isdecimal() and int(bucket) in snapshots:
                    snapshots[int(bucket)].append(snapshot)
        return snapshots

    def fetch(self, bucket: int, snapshot: StoredSnapshot, into: CheckpointStore) -> None:
        copy(self._store, self._name(bucket, snapshot), into, local_name(bucket, snapshot.version))

    def save(self, bucket: int, snapshot: StoredSnapshot, local: CheckpointStore) -> int:
        """Copies a snapshot of the checkpoint folder into the store. Returns its size in bytes.

        Raises FileNotFoundError if the folder does not have it any more.
        """
        return copy(local, local_name(bucket, snapshot.version), self._store, self._name(bucket, snapshot))

    def save_all(self, buckets: int, snapshot: StoredSnapshot, local: CheckpointStore) -> None:
        """Copies the snapshots of all buckets into the store (`save`)."""
        with self._converting():
            for number in range(buckets):
                self.save(number, snapshot, local)

    def delete(self, bucket: int, snapshot: StoredSnapshot) -> None:
        self._store.delete(self._name(bucket, snapshot))

    def remove_unused(self, used: Mapping[int, Iterable[StoredSnapshot]], before: int) -> None:
        """Removes all snapshots, also of other numbers of buckets, whose version is below `before`, except those of
        `used`, by bucket.
        """
        kept = {self._name(bucket, snapshot) for bucket, of_bucket in used.items() for snapshot in of_bucket}
        with self._converting():
            for name in list(self._store.list(f"{SNAPSHOTS}/")):
                snapshot = _named(name.rpartition("/")[2])
                if snapshot and snapshot.version < before and name not in kept:
                    self._store.delete(name)

    def remove_incomplete(self, before: int) -> None:
        """Removes what is left in a folder of copies that were interrupted, if their version is below `before`."""
        with self._converting():
            complete = set(self._store.list(f"{SNAPSHOTS}/"))
            for name in set(self._store.list(f"{SNAPSHOTS}/", incomplete=True)) - complete:
                match = NAME.fullmatch(name.rpartition("/")[2])
                if match and int(match[1]) < before:
                    self._store.delete(name)

    def location(self) -> str:
        return self._store.location()

    @contextmanager
    def _converting(self) -> Iterator[None]:
        """Turns an error of a folder into the one that an object store raises."""
        try:
            yield
        except StoreError:
            raise
        except OSError as error:
            kind = StoreRefusedError if error.errno in REFUSALS else StoreError
            raise kind(f"{self.location()}: {error}") from error

    def _owner(self) -> SnapshotOwner:
        try:
            return SnapshotOwner(**json.loads(get_bytes(self._store, OWNER)))
        except (ValueError, TypeError) as error:
            message = f"{self._store.location(OWNER)}: it is damaged ({error})"
            raise CheckpointError(message) from error

    def _refused(self, present: SnapshotOwner, owner: SnapshotOwner) -> str:
        text = (
            f"state {self.location()}: it belongs to the checkpoint {present.checkpoint} of the pipeline "
            f"{present.pipeline!r} in the Kafka cluster {present.cluster}, and this is the checkpoint "
            f"{owner.checkpoint} of {owner.pipeline!r} in the cluster {owner.cluster}. "
        )
        return text + "Give each cluster a prefix of its own; or remove this prefix, if nothing needs it any more"

    def _name(self, bucket: int, snapshot: StoredSnapshot) -> str:
        return f"{self._prefix}{bucket}/{snapshot.version}-{snapshot.digest[:DIGITS]}.state"


def _named(name: str) -> StoredSnapshot | None:
    """The snapshot with this name in the folder of its bucket; None if it is no name of a snapshot."""
    match = NAME.fullmatch(name)
    return None if match is None else StoredSnapshot(int(match[1]), match[2])


def local_name(bucket: int, version: int) -> str:
    """The name of a snapshot in a checkpoint folder."""
    return f"buckets/{bucket}/{version}.state"


def owner_of(plan: Plan) -> SnapshotOwner:
    """The owner of the prefix of this query. Gets the id of the cluster from Kafka."""
    with clients(plan.pipeline.settings.kafka, "admin") as requests:
        cluster = requests.send(
            "read the id of the cluster", lambda admin: admin.list_topics(timeout=REQUEST).cluster_id
        )
    return SnapshotOwner(plan.pipeline.name, plan.query, str(cluster))


class NeededOffset(NamedTuple):
    """The first offset that a restore needs from a topic partition, and the oldest one that Kafka still has."""

    needed: int
    oldest: int


def oldest_needed(kafka: Mapping[str, str], starts: Offsets, ends: Offsets) -> dict[tuple[str, int], NeededOffset]:
    """For each topic partition from which a restore reads records: the records from `starts` to `ends` (exclusive)."""
    needed = {place: starts.get(place, 0) for place, end in ends.items() if starts.get(place, 0) < end}
    if not needed:
        return {}
    with clients(kafka, "admin") as requests:
        oldest = beginnings(requests, needed)
    return {place: NeededOffset(start, oldest[place]) for place, start in needed.items()}
