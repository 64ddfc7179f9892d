"""The process that holds a bucket's state, the pool that forks it, and the requests of Spark's tasks."""
