"""The parts of a server: apps from a directory, decisions of its own, one active server of a group."""
