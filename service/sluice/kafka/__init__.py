"""Kafka clients: topics, ledger, transactions, and the one policy for what is asked again."""
