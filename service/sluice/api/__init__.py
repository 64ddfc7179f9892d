"""The interfaces for users' Python code: window handlers and custom aggregation functions."""
