"""Partitions of a log: their number as it grows, their place in the usage store, who catches up."""
