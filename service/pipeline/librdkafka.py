"""Names of librdkafka's properties, to find misspelt ones early. librdkafka itself has the last word."""

from __future__ import annotations

#: what the service sets itself, since its promises depend on it
OURS = frozenset({
    "auto.offset.reset", "enable.auto.commit", "enable.auto.offset.store", "enable.idempotence",
    "enable.partition.eof", "isolation.level", "transactional.id",
})  # fmt: skip

USUAL = frozenset({
    # brokers and connections
    "bootstrap.servers", "metadata.broker.list", "client.id", "client.rack", "broker.address.family",
    "broker.address.ttl", "connections.max.idle.ms", "max.in.flight.requests.per.connection",
    "message.max.bytes", "metadata.max.age.ms", "metadata.recovery.strategy", "receive.message.max.bytes",
    "reconnect.backoff.ms", "reconnect.backoff.max.ms", "retry.backoff.ms", "retry.backoff.max.ms",
    "socket.connection.setup.timeout.ms", "socket.keepalive.enable", "socket.max.fails", "socket.nagle.disable",
    "socket.receive.buffer.bytes", "socket.send.buffer.bytes", "socket.timeout.ms",
    "topic.metadata.refresh.interval.ms", "allow.auto.create.topics", "api.version.request", "client.dns.lookup",
    "enable.metrics.push", "debug", "log_level", "log.connection.close", "statistics.interval.ms",
    # security
    "security.protocol", "enable.ssl.certificate.verification", "ssl.ca.location", "ssl.ca.pem",
    "ssl.ca.certificate.stores", "ssl.certificate.location", "ssl.certificate.pem", "ssl.cipher.suites",
    "ssl.crl.location", "ssl.curves.list", "ssl.endpoint.identification.algorithm", "ssl.key.location",
    "ssl.key.password", "ssl.key.pem", "ssl.keystore.location", "ssl.keystore.password", "ssl.providers",
    "ssl.sigalgs.list", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password",
    "sasl.kerberos.service.name", "sasl.kerberos.principal", "sasl.kerberos.keytab", "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.config", "sasl.oauthbearer.extensions", "sasl.oauthbearer.method", "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url", "enable.sasl.oauthbearer.unsecure.jwt",
    # producing
    "acks", "batch.num.messages", "batch.size", "compression.codec", "compression.level", "compression.type",
    "delivery.timeout.ms", "linger.ms", "message.send.max.retries", "message.timeout.ms",
    "queue.buffering.backpressure.threshold", "queue.buffering.max.kbytes", "queue.buffering.max.messages",
    "queue.buffering.max.ms", "request.required.acks", "request.timeout.ms", "retries",
    "sticky.partitioning.linger.ms", "transaction.timeout.ms",
    # consuming
    "check.crcs", "fetch.error.backoff.ms", "fetch.max.bytes", "fetch.message.max.bytes", "fetch.min.bytes",
    "fetch.queue.backoff.ms", "fetch.wait.max.ms", "group.id", "group.instance.id", "heartbeat.interval.ms",
    "max.partition.fetch.bytes", "max.poll.interval.ms", "queued.max.messages.kbytes", "queued.min.messages",
    "session.timeout.ms",
})  # fmt: skip
