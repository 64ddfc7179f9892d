"""How the work of a batch is done: by a job of Spark, or directly by processes of the service."""
