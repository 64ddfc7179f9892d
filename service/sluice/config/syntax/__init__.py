"""The form of the pipeline file: YAML, its keys, window clauses and the grammar of expressions."""
