"""The parts of a manager: its state loop, planning, and what it does for those who ask."""
