from __future__ import annotations

import time
from itertools import groupby

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.cimpl import NewTopic

from sluice.kafka.topics import create
from sluice_demo.flight_player import Player, places
from sluice_demo.flights import Day, Departure

HOUR = 3_600_000
TOPIC_PARTITIONS = 4


def day(number: int, *departures: tuple[int, str]) -> Day:
    """A day that starts 24 hours times `number` after 1970; departures as (hour of the day, airport)."""
    start = number * 24 * HOUR
    flights = [Departure(start + hour * HOUR, origin, f"{number}/{hour}".encode()) for hour, origin in departures]
    return Day(f"1970-01-{number + 1:02d}", start, start + 24 * HOUR, flights)


DAYS = [day(0, (1, "EWR"), (2, "JFK"), (3, "EWR")), day(1), day(2, (1, "LGA"), (2, "EWR"))]


def play(broker: str, topic: str, speed: float | None) -> Player:
    create({"bootstrap.servers": broker}, NewTopic(topic, TOPIC_PARTITIONS))
    return Player({"bootstrap.servers": broker}, topic, TOPIC_PARTITIONS, DAYS, speed)


def records(broker: str, topic: str, count: int) -> dict[int, list[str]]:
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "none", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, place, 0) for place in range(TOPIC_PARTITIONS)])
        found = sorted(consumer.consume(count, 30), key=lambda one: (one.partition(), one.offset()))
        return {place: [written(one) for one in group] for place, group in groupby(found, key=Message.partition)}
    finally:
        consumer.close()


def written(record: Message) -> str:
    key, value = (record.key() or b"").decode(), (record.value() or b"").decode()
    marks = ["MARK"] if record.headers() == [("sluice-mark", b"window")] else []
    return " ".join(filter(None, [f"{record.timestamp()[1] // HOUR}h", key, value, *marks]))


@pytest.mark.kafka
def test_departures_lie_in_the_topic_partition_of_their_airport_and_each_day_ends_with_a_mark_in_all(
    broker: str,
) -> None:
    player = play(broker, "player-all", speed=None)
    player.run()
    assert (player.days, player.tuples, player.marks, player.summaries, player.error) == (3, 5, 12, 4, None)
    assert records(broker, "player-all", 17) == {
        0: ["24h MARK", "48h MARK", "49h LGA 2/1", "72h MARK"],
        1: ["2h JFK 0/2", "24h MARK", "48h MARK", "72h MARK"],
        2: ["24h MARK", "48h MARK", "72h MARK"],
        3: ["1h EWR 0/1", "3h EWR 0/3", "24h MARK", "48h MARK", "50h EWR 2/2", "72h MARK"],
    }


@pytest.mark.kafka
def test_it_keeps_its_speed(broker: str) -> None:
    player = play(broker, "player-speed", speed=4.0)
    player.go()
    began = time.monotonic()
    player.run()
    assert 0.5 <= time.monotonic() - began < 3


@pytest.mark.kafka
def test_with_a_speed_it_plays_one_day_and_waits(broker: str) -> None:
    player = play(broker, "player-waits", speed=1000.0)
    player.start()
    assert records(broker, "player-waits", 7)[1] == ["2h JFK 0/2", "24h MARK"]
    assert player.is_alive()
    player.go()
    player.join()
    assert player.days == 3


@pytest.mark.kafka
def test_stopped_it_ends_at_once(broker: str) -> None:
    player = play(broker, "player-stopped", speed=0.001)
    player.start()
    player.go()
    player.stop()
    assert not player.is_alive()
    assert player.days <= 1


def test_airports_lie_where_any_java_client_would_put_them() -> None:
    """By Kafka's murmur2, calculated with its Java class."""
    assert places(4) == {"EWR": 3, "JFK": 1, "LGA": 0}
    assert places(3) == {"EWR": 1, "JFK": 1, "LGA": 0}
