from __future__ import annotations

import json

import pytest

from sluice.checkpoint.checkpoint_store import get_bytes, put_bytes
from sluice.checkpoint.topic_ids import FILE, require_same_topics
from sluice.kafka.kafka_errors import DataLossError
from tests.unit.checkpoint.memory_store import MemoryStore

FIRST, SECOND = {"trades": "id 1", "rates": "id 2"}, {"trades": "id 3", "rates": "id 2"}


@pytest.fixture
def store():
    """A checkpoint with a planned batch."""
    made = MemoryStore()
    put_bytes(made, "offsets/0", b"")
    require_same_topics(made, FIRST, may_lose=False)
    return made


def ids_in(store):
    return json.loads(get_bytes(store, FILE))


def test_the_same_topics_are_accepted_in_any_order(store):
    require_same_topics(store, dict(reversed(FIRST.items())), may_lose=False)
    assert ids_in(store) == FIRST


def test_a_topic_that_was_created_again_is_refused_by_name_at_each_start(store):
    for _ in range(2):
        with pytest.raises(DataLossError, match="topic trades was deleted and created again"):
            require_same_topics(store, SECOND, may_lose=False)


def test_it_is_accepted_once_and_for_all_if_records_may_be_lost(store, caplog):
    require_same_topics(store, SECOND, may_lose=True)
    assert "topic trades was deleted and created again" in caplog.text
    require_same_topics(store, SECOND, may_lose=False)


def test_a_topic_that_is_new_in_the_file_is_accepted(store):
    require_same_topics(store, FIRST | {"news": "id 4"}, may_lose=False)
    assert ids_in(store) == FIRST | {"news": "id 4"}


def test_before_the_first_batch_a_topic_may_be_created_again():
    store = MemoryStore()
    require_same_topics(store, FIRST, may_lose=False)
    require_same_topics(store, SECOND, may_lose=False)
    assert ids_in(store) == SECOND


def test_a_lost_checkpoint_is_compared_with_the_ledger():
    for _ in range(2):
        with pytest.raises(DataLossError, match="topic trades was deleted and created again"):
            require_same_topics(MemoryStore(), SECOND, lambda: FIRST, may_lose=False)
    store = MemoryStore()
    require_same_topics(store, FIRST, lambda: FIRST, may_lose=False)
    require_same_topics(store, FIRST, lambda: pytest.fail("the checkpoint has them now"), may_lose=False)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff"])
def test_ids_that_cannot_be_read_are_written_again(store, content):
    put_bytes(store, FILE, content)
    require_same_topics(store, SECOND, may_lose=False)
    with pytest.raises(DataLossError):
        require_same_topics(store, FIRST, may_lose=False)
