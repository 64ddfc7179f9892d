"""Records between Kafka and Arrow columns: calls of librdkafka for the clients of confluent-kafka."""
