"""Joins in the text of a program."""
