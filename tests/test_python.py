"""The package as Python sees it: its stub, its types, its documentation, its progress."""
