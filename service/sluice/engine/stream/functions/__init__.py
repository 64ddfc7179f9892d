"""The scalar functions of `model/functions.py`, over columns of pyarrow."""
