"""The processes that Spark's Python workers and the state servers are forked from."""
