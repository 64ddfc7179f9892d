"""Windows over event time: timeInterval (reference section 5) and slidingTime (KIP-450)."""
