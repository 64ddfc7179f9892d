"""The Aggregate operator, over windows of processing time and of event time."""
