"""Spark: the session, the query, its source and sink, and the service that watches them."""
