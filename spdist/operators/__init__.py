"""Pure operators: what queries do to events, one at a time, with state that can be stored and taken up again."""
