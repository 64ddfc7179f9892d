"""Consumer groups beside the ledger's: one grants the lead of a pipeline, one shows lag monitors what was read."""
