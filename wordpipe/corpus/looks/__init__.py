"""The looks of bytes, whatever their name says."""
