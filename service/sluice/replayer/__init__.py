"""`sluice replay`: runs recorded events from a file through the engine, without Kafka and Spark."""
