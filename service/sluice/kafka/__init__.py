"""Kafka clients: topics, the ledger, transactions, and one retry policy for all requests."""
