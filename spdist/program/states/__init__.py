"""The state of a program as that of the operators, and back."""
