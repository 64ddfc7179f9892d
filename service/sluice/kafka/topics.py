"""Checks the topics of a pipeline before the service starts, and creates missing output topics."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient, ConfigResource, NewTopic, ResourceType, TopicDescription

from sluice.kafka import ledger
from sluice.kafka.batch_producers import DEFAULT_LIMIT
from sluice.kafka.client import LOGGER
from sluice.kafka.kafka_errors import TopicError, TopicMissingError, UnavailableError
from sluice.kafka.requests import REQUEST, RETRY_TIMEOUT_S, Requests, clients, transient
from sluice.model.kafka_properties import servers
from sluice.model.spec import Pipeline, Stream
from sluice.model.stream_marks import require_scope

#: the requests of this module, which an AdminClient sends
AdminRequests = Requests[AdminClient]

#: seconds that the first attempt to reach a broker may take
FIRST_ATTEMPT_S = 2.0

LEDGER_CONFIG = {
    "cleanup.policy": "compact",
    # Kafka never compacts the newest segment of a log, which would otherwise grow to one gigabyte.
    "segment.bytes": str(16 << 20),
    "min.cleanable.dirty.ratio": "0.1",
}


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    partitions: int
    max_message_bytes: int
    #: whether Kafka removes records that have a newer one with the same key, or may do so as far as the user may know
    compacted: bool = False
    #: Kafka's id of the topic, which changes when the topic is deleted and created again
    id: str = field(default="", compare=False)


def check(pipeline: Pipeline, retry_s: float = RETRY_TIMEOUT_S) -> dict[str, Topic]:
    """All topics of the pipeline and of the ledger, by name. Creates missing topics of outputs and of the ledger.

    Raises UnavailableError if no broker answers within `retry_s` seconds. Raises MarkScopeError (B6) before it creates
    a topic. Raises TopicError if an input topic is missing, if the pipeline file does not give the `partitions` of a
    missing output, or if the user may not read or write a topic.
    """
    with reach(pipeline.settings.kafka, retry_s) as requests:
        return _checked(requests, pipeline, retry_s)


def _checked(requests: AdminRequests, pipeline: Pipeline, retry_s: float) -> dict[str, Topic]:
    inputs, outputs = _names(pipeline.inputs), _names(_written(pipeline))
    described = _describe(requests, [*inputs, *outputs, ledger.TOPIC])
    created = [*outputs, *_names(_exchanges(pipeline))]
    missing = [name for name in inputs if name not in described and name not in created]
    if missing:
        message = f"no such topic: {', '.join(missing)}; inputs are not created, look at `topic` of the streams"
        raise TopicMissingError(message)
    present = {stream.name: described[str(stream.topic)] for stream in pipeline.inputs if stream.topic in described}
    require_scope(pipeline, {name: len(topic.partitions) for name, topic in present.items()})
    _create(requests, _new_topics(pipeline, described), retry_s)
    described = _describe(requests, [*inputs, *outputs, ledger.TOPIC])
    _require_allowed(described, inputs, AclOperation.READ)
    _require_allowed(described, [*outputs, ledger.TOPIC], AclOperation.WRITE)
    limits = _configurations(requests, described)
    _warn_of_retention(limits[ledger.TOPIC])
    return _topics(described, limits)


def _warn_of_retention(config: Mapping[str, Any] | None) -> None:
    """Says that Kafka deletes entries of the ledger, if it does: the topic was not created by the service."""
    policy = "compact" if config is None else config["cleanup.policy"].value
    if "delete" in policy:
        LOGGER.warning(
            "topic %s has cleanup.policy=%s: Kafka deletes old entries, without which a lost checkpoint cannot be "
            "restored, and a pipeline that was quiet for long cannot start; set cleanup.policy=compact",
            ledger.TOPIC, policy,
        )  # fmt: skip


def create(kafka: Mapping[str, str], *new: NewTopic, retry_s: float = RETRY_TIMEOUT_S) -> dict[str, TopicDescription]:
    """Creates the topics that do not exist. Returns the descriptions of all, each by its name.

    Returns when the brokers know the topics and their leaders. Kafka's answer to a creation means that the controller
    knows the topic; for some seconds, a broker may still answer that there is no such topic. Raises UnavailableError
    after `retry_s` seconds, and TopicError if Kafka refuses.
    """
    with reach(kafka, retry_s) as requests:
        return _create(requests, list(new), retry_s)


def known(pipeline: Pipeline) -> dict[str, Topic]:
    """The topics of the pipeline, by name. Creates nothing; raises TopicError if a topic is missing."""
    names = [*_names(pipeline.inputs), *_names(_written(pipeline))]
    with reach(pipeline.settings.kafka) as requests:
        described = _describe(requests, names)
        missing = [name for name in names if name not in described]
        if missing:
            message = f"no such topic: {', '.join(missing)}"
            raise TopicError(message)
        return _topics(described, _configurations(requests, described))


def known_inputs(pipeline: Pipeline) -> dict[str, Topic]:
    """The input topics that exist, by name."""
    with reach(pipeline.settings.kafka) as requests:
        described = _describe(requests, _names(pipeline.inputs))
        return _topics(described, _configurations(requests, described))


def compacted(kafka: Mapping[str, str], topic: str, retry_s: float = RETRY_TIMEOUT_S) -> bool | None:
    """Whether `cleanup.policy` of the topic includes compaction; None if the user may not read its configuration."""
    with reach(kafka, retry_s) as requests:
        config = _configurations(requests, [topic])[topic]
    return None if config is None else _compacted(config)


def reach(kafka: Mapping[str, str], retry_s: float = RETRY_TIMEOUT_S) -> AdminRequests:
    """Requests with a client that a broker has answered. Raises UnavailableError after `retry_s` seconds.

    The first attempt is short, so that a wrong address is named in the log soon.
    """
    requests: AdminRequests = clients(kafka, "admin", retry_s=retry_s)
    longest, timeouts = max(0.1, min(REQUEST, retry_s)), iter([FIRST_ATTEMPT_S])

    def list_topics(client: AdminClient) -> None:
        client.list_topics(timeout=min(longest, next(timeouts, longest)))

    explain = partial(unreachable, servers(kafka))
    requests.send("list topics", list_topics, seconds=longest, explain=explain)
    return requests


#: a part of librdkafka's message -> the cause in words
CAUSES = {
    "Connection refused": "the connection is refused, so nothing listens at this address",
    "Failed to resolve": "the name of the host is unknown",
    "SASL authentication error": "the login is refused",
    "SSL handshake failed": "the TLS handshake failed",
    "Disconnected while requesting ApiVersion": "the connection is closed, perhaps as the broker expects another "
    "security.protocol",
}


def unreachable(addresses: str, reason: str) -> str:
    """The message that no broker at `addresses` can be used. `reason` is librdkafka's message."""
    cause = next((words for part, words in CAUSES.items() if part in reason), "none answers")
    return f"cannot connect to Kafka at {addresses}: {cause} ({reason})"


def _written(pipeline: Pipeline) -> Iterator[Stream]:
    yield from pipeline.outputs
    if pipeline.dead_letters:
        yield pipeline.streams[pipeline.dead_letters]


def _exchanges(pipeline: Pipeline) -> list[Stream]:
    """The inputs whose topics the service itself writes. A stage that starts later may write them first."""
    return [stream for stream in pipeline.inputs if stream.exchange]


def _names(streams: Iterable[Stream]) -> list[str]:
    return [stream.topic for stream in streams if stream.topic]


def _describe(requests: AdminRequests, names: Iterable[str]) -> dict[str, TopicDescription]:
    """The broker's descriptions of the named topics that exist."""
    topics = TopicCollection(list(dict.fromkeys(names)))

    def describe(client: AdminClient) -> dict[str, TopicDescription | None]:
        futures = client.describe_topics(topics, include_authorized_operations=True, request_timeout=REQUEST)
        return {name: _answer(f"describe topic {name}", future) for name, future in futures.items()}

    described = requests.send("describe topics", describe)
    return {name: description for name, description in described.items() if description is not None}


def _answer(action: str, future: Any, *passing: int) -> Any:  # noqa: ANN401
    """The result of `future`; None for an unknown topic and for the error codes in `passing`.

    Raises a transient error unchanged, so that the request is repeated, and TopicError for every other error.
    """
    try:
        return future.result()
    except KafkaException as error:
        kafka_error = error.args[0]
        if kafka_error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, *passing):
            return None
        if transient(kafka_error):
            raise
        message = f"cannot {action}: {kafka_error.str()}"
        raise TopicError(message) from error


def _new_topics(pipeline: Pipeline, described: Mapping[str, TopicDescription]) -> list[NewTopic]:
    new: list[NewTopic] = []
    for stream in (*_written(pipeline), *_exchanges(pipeline)):
        if stream.topic and stream.topic not in (*described, *(topic.topic for topic in new)):
            if stream.partitions is None:
                message = (
                    f"no such topic: {stream.topic}; it may be created if stream {stream.name!r} gives `partitions`"
                )
                raise TopicError(message)
            new.append(NewTopic(stream.topic, stream.partitions))
    if ledger.TOPIC not in described:
        new.append(NewTopic(ledger.TOPIC, 1, config=LEDGER_CONFIG))
    return new


def _create(requests: AdminRequests, new: list[NewTopic], retry_s: float) -> dict[str, TopicDescription]:
    """As `create`. Another process may create the topics at the same time."""
    if not new:
        return {}
    names = [topic.topic for topic in new]

    def request(admin: AdminClient) -> None:
        for name, future in admin.create_topics(new, request_timeout=REQUEST).items():
            _answer(f"create topic {name}", future, KafkaError.TOPIC_ALREADY_EXISTS)

    requests.send("create topics", request)
    LOGGER.info("created topics %s", ", ".join(names))
    deadline = time.monotonic() + retry_s
    while not _led(described := _describe(requests, names), names):
        if time.monotonic() > deadline:
            message = f"the topics {', '.join(names)} were created, but the brokers do not know them yet; start again"
            raise UnavailableError(message)
        time.sleep(0.05)
    return described


def _led(described: Mapping[str, TopicDescription], names: Iterable[str]) -> bool:
    """Whether all topics are there, and each of their topic partitions has a leader."""
    return all(
        name in described and all(partition.leader for partition in described[name].partitions) for name in names
    )


def _require_allowed(described: Mapping[str, TopicDescription], names: Iterable[str], operation: AclOperation) -> None:
    for name in names:
        allowed = described[name].authorized_operations
        if allowed and operation not in allowed:
            verb = operation.name.lower()
            message = (
                f"the user of the `kafka:` block may not {verb} topic {name}: it lacks the permission {operation.name}"
            )
            raise TopicError(message)


def _topics(described: Mapping[str, TopicDescription], limits: Mapping[str, Any]) -> dict[str, Topic]:
    return {
        name: Topic(
            name, len(description.partitions), _limit(limits[name]), _compacted(limits[name]), str(description.topic_id)
        )
        for name, description in described.items()
    }


def _configurations(requests: AdminRequests, names: Iterable[str]) -> dict[str, Any]:
    """The configuration of each topic; None for one whose configuration the user may not read."""
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    passing = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)

    def describe(admin: AdminClient) -> dict[str, Any]:
        futures = admin.describe_configs(resources, request_timeout=REQUEST)
        return {resource.name: _answer("read limits", future, *passing) for resource, future in futures.items()}

    return requests.send("read limits", describe)


def _limit(config: Mapping[str, Any] | None) -> int:
    """A topic's `max.message.bytes`; Kafka's default if the user may not read the topic's configuration (None)."""
    return int(config["max.message.bytes"].value) if config else DEFAULT_LIMIT


def _compacted(config: Mapping[str, Any] | None) -> bool:
    """Whether `cleanup.policy` includes compaction; True if the user may not read the topic's configuration (None)."""
    return config is None or "compact" in config["cleanup.policy"].value
