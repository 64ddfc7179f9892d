"""The form of the pipeline file: its keys, and the kinds of their values, as models of pydantic."""
