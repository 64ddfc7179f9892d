from __future__ import annotations

import json

import pytest

from sluice.checkpoint.checkpoint_store import get_bytes, put_bytes
from sluice.checkpoint.topic_ids import FILE, topics_created_again, write_ids
from sluice.kafka.kafka_errors import DataLossError
from tests.unit.checkpoint.memory_store import MemoryStore

FIRST, SECOND = {"trades": "id 1", "rates": "id 2"}, {"trades": "id 3", "rates": "id 2"}


def start(store, ids, in_ledger=dict, *, may_lose=False):
    """What a start does with the ids: the topics that it reads from their beginnings."""
    anew = topics_created_again(store, ids, in_ledger, may_lose=may_lose)
    write_ids(store, ids)
    return anew


@pytest.fixture
def store():
    """A checkpoint with a planned batch."""
    made = MemoryStore()
    put_bytes(made, "offsets/0", b"")
    start(made, FIRST)
    return made


def ids_in(store):
    return json.loads(get_bytes(store, FILE))


def test_the_same_topics_are_accepted_in_any_order(store):
    assert start(store, dict(reversed(FIRST.items()))) == []
    assert ids_in(store) == FIRST


def test_a_topic_that_was_created_again_is_refused_by_name_at_each_start(store):
    for _ in range(2):
        with pytest.raises(DataLossError, match="topic trades was deleted and created again"):
            start(store, SECOND)


def test_it_is_read_from_its_beginning_once_if_records_may_be_lost(store, caplog):
    assert start(store, SECOND, may_lose=True) == ["trades"]
    assert "topic trades was deleted and created again" in caplog.text
    assert start(store, SECOND) == []


def test_a_topic_that_is_new_in_the_file_is_accepted(store):
    assert start(store, FIRST | {"news": "id 4"}) == []
    assert ids_in(store) == FIRST | {"news": "id 4"}


def test_before_the_first_batch_a_topic_may_be_created_again(caplog):
    store = MemoryStore()
    start(store, FIRST)
    assert start(store, SECOND) == ["trades"]
    assert ids_in(store) == SECOND
    assert caplog.text == ""


def test_a_lost_checkpoint_is_compared_with_the_ledger():
    for _ in range(2):
        with pytest.raises(DataLossError, match="topic trades was deleted and created again"):
            start(MemoryStore(), SECOND, lambda: FIRST)
    store = MemoryStore()
    start(store, FIRST, lambda: FIRST)
    start(store, FIRST, lambda: pytest.fail("the checkpoint has them now"))


def test_another_instance_may_have_gone_on_with_the_new_topic(store):
    """The checkpoint of an instance that was the leader before has the old ids."""
    assert start(store, SECOND, lambda: SECOND) == []
    assert ids_in(store) == SECOND


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff"])
def test_ids_that_cannot_be_read_are_written_again(store, content):
    put_bytes(store, FILE, content)
    start(store, SECOND)
    with pytest.raises(DataLossError):
        start(store, FIRST)
