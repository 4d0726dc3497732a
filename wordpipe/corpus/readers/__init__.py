"""The readers of the formats, in a file each; the table in `corpus/formats.py` names the function that reads a format."""
