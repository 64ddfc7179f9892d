"""`sluice init`: drafts a pipeline file from records of a topic."""
