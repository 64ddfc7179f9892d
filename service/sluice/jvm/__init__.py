"""Java: which program runs, and the jars that Spark and the embedded broker need."""
