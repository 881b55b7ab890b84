"""Patterns and sequences as one automaton."""
