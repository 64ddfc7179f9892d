"""Java: the `java` program, and the jars that Spark and the embedded broker need."""
