from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import pytest
from confluent_kafka.admin import NewTopic

from sluice.kafka import ledger
from sluice.kafka.topics import LEDGER_CONFIG, create
from tests.unit.kafka.broker_tools import visible

NUMBERS = itertools.count()


@pytest.fixture
def kafka(broker: str) -> dict[str, str]:
    """The `kafka:` block of a pipeline file."""
    return {"bootstrap.servers": broker}


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"test-{next(NUMBERS)}"


@pytest.fixture
def create_topic(kafka) -> Callable[..., None]:
    """Creates a topic: name, topic partitions, properties, and where it is to be, if not in `kafka`."""
    return lambda name, partitions=1, at=None, **config: create(at or kafka, NewTopic(name, partitions, config=config))


@pytest.fixture
def topic(kafka, name) -> str:
    """A topic of two topic partitions, and the ledger's."""
    create(kafka, NewTopic(name, 2))
    create(kafka, NewTopic(ledger.TOPIC, 1, config=LEDGER_CONFIG))
    return name


@pytest.fixture
def read(kafka) -> Callable[..., list]:
    """`visible` of the broker of the session."""
    return partial(visible, kafka)
