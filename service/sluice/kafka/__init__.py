"""Kafka clients: topics, the ledger, transactions, records as columns, and one retry policy for all requests."""
