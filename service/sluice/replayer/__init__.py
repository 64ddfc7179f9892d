"""`sluice replay`: events of a file through the engine, without Kafka and Spark."""
