"""The checkpoint: the contract of its store, the store of a folder, its identity, its lock, and Spark's logs in it."""
