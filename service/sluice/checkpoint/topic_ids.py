"""The ids of the input topics to whose records the offsets in a checkpoint refer.

Kafka gives a topic another id when it is deleted and created again. The offsets of the checkpoint are then no positions
in the new topic: as soon as it has more records than they say, a reader would begin in the middle without an error, and
a restore would compute another state. A checkpoint that was lost does not have the ids; the ledger has them, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from sluice.checkpoint.checkpoint_store import CheckpointStore, get_bytes, put_bytes
from sluice.checkpoint.offset_log import last_planned
from sluice.kafka.client_log import LOGGER
from sluice.kafka.kafka_errors import DataLossError

FILE = "topics.json"


def require_same_topics(
    store: CheckpointStore, ids: Mapping[str, str], in_ledger: Callable[[], Mapping[str, str]] = dict, *, may_lose: bool
) -> None:
    """Compares the ids of the input topics, by name, with those in the checkpoint, and writes them into it.

    If the checkpoint has none, compares them with those that `in_ledger` gives. Raises DataLossError if a topic was
    created again since a batch was planned. With `may_lose` it only logs that.
    """
    known = _known(store)
    before = known or in_ledger()
    anew = sorted(name for name, one in ids.items() if before.get(name, one) != one)
    if anew and (not known or last_planned(store) is not None):
        what = (
            f"topic {', '.join(anew)} was deleted and created again since the last start, and the checkpoint has the "
            "offsets of the earlier one"
        )
        if not may_lose:
            raise DataLossError(
                f"{what}: records may be lost. To continue at the same offsets of the new topic, start with "
                "on_data_loss: continue; to read the new topic from its beginning, start anew with an empty folder and "
                "--reset-ledger"
            )
        LOGGER.warning("%s; the service continues at the same offsets of the new one", what)
    if known != ids:
        put_bytes(store, FILE, json.dumps(dict(ids)).encode())


def _known(store: CheckpointStore) -> dict[str, str]:
    """The ids in the checkpoint; empty if it has none that can be read."""
    try:
        found = json.loads(get_bytes(store, FILE))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
