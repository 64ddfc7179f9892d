"""Operation: logs, metrics, health and the HTTP port."""
