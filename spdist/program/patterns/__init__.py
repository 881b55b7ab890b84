"""Patterns and sequences in the text of a program."""
