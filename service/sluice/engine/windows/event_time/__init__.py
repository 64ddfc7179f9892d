"""Windows over event time: timeInterval (section 5 of the SPL reference) and slidingTime (KIP-450)."""
