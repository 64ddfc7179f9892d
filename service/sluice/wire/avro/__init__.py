"""The Avro format: a compiler of schemas to programs, their interpreter, and the encoder."""
