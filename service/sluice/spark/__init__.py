"""The part that imports pyspark: the session, the query with its source and sink, and the service that watches it."""
