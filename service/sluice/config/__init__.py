"""The pipeline file: from YAML text to the model, with every problem at its place."""
