"""Whether results come behind the watermark: bounds of the event time of each output, from the pipeline alone."""
