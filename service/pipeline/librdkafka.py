"""The properties that may stand under `kafka`, librdkafka's, and under `registry`, those of Confluent's client.

What librdkafka's become says service/kafka/client.py.
"""

from __future__ import annotations

#: what decides whether outputs are exact, which is the service's business
OURS = frozenset({
    "acks", "auto.offset.reset", "enable.auto.commit", "enable.auto.offset.store", "enable.idempotence", "group.id",
    "group.instance.id", "isolation.level", "max.in.flight", "max.in.flight.requests.per.connection",
    "message.max.bytes", "partitioner", "request.required.acks", "transactional.id",
})  # fmt: skip

KNOWN = frozenset({
    # brokers and connections
    "bootstrap.servers", "metadata.broker.list", "broker.address.family", "broker.address.ttl", "client.dns.lookup",
    "client.id", "client.rack", "connections.max.idle.ms", "debug", "log_level", "metadata.max.age.ms",
    "reconnect.backoff.max.ms", "reconnect.backoff.ms", "retry.backoff.max.ms", "retry.backoff.ms",
    "socket.connection.setup.timeout.ms", "socket.keepalive.enable", "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes", "socket.timeout.ms", "topic.metadata.refresh.interval.ms",
    # security
    "sasl.kerberos.service.name", "sasl.mechanism", "sasl.mechanisms", "sasl.password", "sasl.username",
    "security.protocol", "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem",
    "ssl.cipher.suites", "ssl.endpoint.identification.algorithm", "ssl.key.location", "ssl.key.password",
    "ssl.key.pem",
    # reading
    "check.crcs", "fetch.max.bytes", "fetch.message.max.bytes", "fetch.min.bytes", "fetch.wait.max.ms",
    "max.partition.fetch.bytes",
    # writing
    "batch.num.messages", "batch.size", "compression.codec", "compression.level", "compression.type",
    "delivery.timeout.ms", "linger.ms", "message.send.max.retries", "message.timeout.ms",
    "queue.buffering.max.kbytes", "queue.buffering.max.messages", "queue.buffering.max.ms", "request.timeout.ms",
    "retries", "transaction.timeout.ms",
})  # fmt: skip

ANY = (r"(?s).*", "a text")
NUMBER = (r"\d+(\.\d+)?", "a number")
#: of the registry's client: what their values look like
REGISTRY = {
    "url": (
        r"(https?://[^@\s,]+)(,\s*https?://[^@\s,]+)*",
        "a URL without user and password: basic.auth.user.info has them",
    ),
    "auto.register.schemas": ("true|false", "true or false"),
    "timeout": NUMBER,
    "max.retries": (r"\d{1,3}", "a number of times"),
    "retries.wait.ms": (r"\d{1,6}", "a number of milliseconds"),
    **dict.fromkeys(
        (
            "basic.auth.credentials.source", "basic.auth.user.info", "bearer.auth.client.id",
            "bearer.auth.client.secret", "bearer.auth.credentials.source", "bearer.auth.identity.pool.id",
            "bearer.auth.issuer.endpoint.url", "bearer.auth.logical.cluster", "bearer.auth.scope", "bearer.auth.token",
            "proxy", "ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.key.password",
        ),
        ANY,
    ),
}  # fmt: skip
