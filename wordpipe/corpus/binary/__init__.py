"""The readers of files that hold no plain text, in a file each, and the child processes in which their parsers run."""
