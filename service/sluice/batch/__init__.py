"""The steps of a batch, without Spark: routing to buckets, order of records, parts, outputs, and the write to Kafka."""
