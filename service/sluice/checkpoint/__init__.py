"""The checkpoint folder: its identity, its lock, and Spark's logs of offsets and commits in it."""
