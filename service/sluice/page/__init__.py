"""The page of the service: what its pipelines do now, what holds their windows back, and what a key's windows hold."""
