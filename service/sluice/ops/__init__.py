"""Operation of the service: log lines, metrics, health checks and the HTTP server."""
