"""The meaning of the pipeline file: whether names, types, windows, streams and settings fit together."""
