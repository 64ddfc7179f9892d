"""What users' Python sees: the classes of window handlers and of custom aggregation functions."""
