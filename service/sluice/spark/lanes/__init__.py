"""How the work of a batch is done: by a job of Spark, or directly in the service's own process."""
