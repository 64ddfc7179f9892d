"""`sluice explain`: the plan of a pipeline in words and as a drawing."""
