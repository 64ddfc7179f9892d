"""The Join operator over event time: interval joins and as-of joins."""
