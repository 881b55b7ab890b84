"""What a leader decides: which group runs where, and what becomes of it. Pure."""
