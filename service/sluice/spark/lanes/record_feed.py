"""Records of the input topics that the service's own process reads ahead, so that they are there for a small batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import closing

import pyarrow as pa

from sluice.kafka.following_reader import FollowingReader
from sluice.kafka.librdkafka.column_consumer import Place
from sluice.kafka.range_reader import Offsets

#: seconds of a wait for records that Spark's source has seen already
TIMEOUT_S = 2.0
#: bytes that the client reads ahead
AHEAD = 4 << 20
#: bytes of records of one batch that this process holds at once
MAX_BYTES = 16 << 20
#: factor of the expected size of records after each batch that was expected to be too large and so was not read
DECAY = 0.99


class TooManyBytesError(Exception):
    """The records of a batch have more bytes than this process holds at once."""


class RecordFeed:
    """Takes the records of one batch after the other into memory."""

    def __init__(self, reader: FollowingReader) -> None:
        self._reader = reader
        #: the mean size of the records of the last batch that had too many bytes
        self._expected_size = 0.0

    @classmethod
    def of(cls, kafka: Mapping[str, str]) -> RecordFeed:
        """The feed from the brokers of a `kafka:` block."""
        return cls(FollowingReader.of(kafka, TIMEOUT_S, AHEAD))

    def fits(self, records: int) -> bool:
        """Whether a batch of so many records probably has at most MAX_BYTES.

        The mean size of the records of the last batch that had more decides, so that a stream of large records is not
        read here in vain for each batch. As records may become smaller, its weight shrinks with each batch that does
        not fit.
        """
        if records * self._expected_size <= MAX_BYTES:
            return True
        self._expected_size *= DECAY
        return False

    def take(self, starts: Offsets, ends: Offsets) -> dict[Place, pa.RecordBatch]:
        """The records from the start (inclusive) to the end (exclusive) of each topic partition, in order of offsets.

        Both have the same topic partitions. Topic partitions without records are left out. Raises TooManyBytesError if
        the records have more than MAX_BYTES, and RecordsNotReadError if they cannot be read here.
        """
        found: defaultdict[Place, list[pa.RecordBatch]] = defaultdict(list)
        size = 0
        with closing(self._reader.read(starts, ends)) as read:
            for place, records in read:
                found[place].append(records)
                size += records.nbytes
                if size > MAX_BYTES:
                    self._expected_size = size / sum(map(len, found.values()))
                    message = f"the records of a batch have more than {MAX_BYTES} bytes"
                    raise TooManyBytesError(message)
        return {place: some[0] if len(some) == 1 else pa.concat_batches(some) for place, some in found.items()}

    def close(self) -> None:
        """Closes the Kafka client, and frees what it has read ahead; the next `take` makes a new one."""
        self._reader.close()
