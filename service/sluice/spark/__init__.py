"""The part that imports pyspark: the session, the queries, the two lanes of a batch, and what watches them."""
