"""Checks operators of each kind, and builds them."""
