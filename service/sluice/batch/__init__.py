"""The steps of a batch outside its buckets: routing on the way in; on the way out, order and the write to Kafka."""
