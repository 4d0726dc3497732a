"""wordpipe: from your own text to a searchable index, on your own machine."""

__version__ = "0.1.0"
