"""Changes of a pipeline between two starts: how an earlier definition is read, and what each change means for state."""
