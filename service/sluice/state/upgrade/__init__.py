"""A pipeline file that has changed since its checkpoint was made: what becomes of the state, and its conversion."""
