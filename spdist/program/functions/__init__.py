"""Functions in a program: those with a typed form, those computed in front of the loop, and what changes objects."""
