"""Aggregations in the text of a program."""
