"""The readers of the formats, a file each; the table in `corpus/formats.py` names them."""
