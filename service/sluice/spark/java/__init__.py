"""The Java process of Spark: its command, the classes that it loads, and its end."""
