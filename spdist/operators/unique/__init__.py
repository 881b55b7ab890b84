"""Windows and processors that know one event for each key: those of the family ``unique:``."""
