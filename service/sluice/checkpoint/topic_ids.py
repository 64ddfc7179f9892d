"""The ids of the input topics to whose records the offsets in a checkpoint refer.

Kafka gives a topic another id when it is deleted and created again. The offsets of the checkpoint are then no positions
in the new topic: as soon as it has more records than they say, a reader would begin in the middle without an error, and
a restore would compute another state. A checkpoint that was lost does not have the ids; the ledger has them, too.

A start compares them here, and a query while it runs (spark/lanes/topic_check.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from sluice.checkpoint.checkpoint_store import CheckpointStore, get_bytes, put_bytes
from sluice.checkpoint.offset_log import last_planned
from sluice.kafka.client import LOGGER
from sluice.kafka.kafka_errors import DataLossError

FILE = "topics.json"


def topics_created_again(
    store: CheckpointStore, ids: Mapping[str, str], in_ledger: Callable[[], Mapping[str, str]] = dict, *, may_lose: bool
) -> list[str]:
    """The input topics that were created again since the checkpoint has read them, by name.

    ids         Kafka's ids of the input topics at present, by name
    in_ledger   gives the ids at the last batch. They are compared, too, if the checkpoint has none, or others: another
                instance may have gone on with the new topics

    Raises DataLossError if there is one and a batch was planned, unless `may_lose`. Then it logs a warning, and the
    caller lets the query begin at the beginnings of the new topics, and calls `write_ids`.
    """
    stored_ids = _known(store)
    created_topics = _differing(stored_ids, ids)
    if created_topics or not stored_ids:
        created_topics = _differing({**stored_ids, **in_ledger()}, ids)
    if created_topics and (not stored_ids or last_planned(store) is not None):
        names = created_again(created_topics, "since the last start")
        if not may_lose:
            raise refused(names)
        LOGGER.warning("%s; the service reads the new one from its beginning", names)
    return created_topics


def _differing(before: Mapping[str, str], ids: Mapping[str, str]) -> list[str]:
    return sorted(name for name, topic_id in ids.items() if before.get(name, topic_id) != topic_id)


def write_ids(store: CheckpointStore, ids: Mapping[str, str]) -> None:
    """Writes the ids into the checkpoint, from whose offsets on the query now reads these topics."""
    if _known(store) != ids:
        put_bytes(store, FILE, json.dumps(dict(ids)).encode())


def created_again(names: Sequence[str], since: str) -> str:
    """What has happened to these topics. `since`: when."""
    topics, offsets = ", ".join(names), "the checkpoint has the offsets of the earlier one"
    return f"topic {topics} was deleted and created again {since}, and {offsets}"


def refused(cause: str) -> DataLossError:
    """The error of a start or a query that may not lose records."""
    return DataLossError(
        f"{cause}: records may be lost. To keep the state and read the new topic from its beginning, start with "
        "on_data_loss: continue; to read all topics from their beginnings, start anew with an empty folder and "
        "--reset-ledger"
    )


def _known(store: CheckpointStore) -> dict[str, str]:
    """The ids in the checkpoint; empty if it has none that can be read."""
    try:
        ids = json.loads(get_bytes(store, FILE))
    except (OSError, ValueError):
        return {}
    return ids if isinstance(ids, dict) else {}
