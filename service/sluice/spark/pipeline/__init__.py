"""A run of a pipeline: its Spark queries from the start to the end, in a session that several runs share."""
