"""Partitions: queries with a state of their own for each key."""
