"""The JSON format: a compiled scanner, and an exact decoder for the values that it does not accept."""
