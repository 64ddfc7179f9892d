"""The format Protobuf: a compiler of schemas to programs, their interpreter, and the encoder."""
