"""Reads a pipeline file: from YAML text to the model, and all problems with their lines and keys."""
