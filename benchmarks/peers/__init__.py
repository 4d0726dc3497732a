"""The libraries that the benchmarks compare with, each called in a process of its own environment."""
