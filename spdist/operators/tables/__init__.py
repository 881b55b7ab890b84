"""Tables in memory, stores of other kinds, and queries on demand."""
