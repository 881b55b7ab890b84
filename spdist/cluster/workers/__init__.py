"""The parts of a node that runs groups: what it must run, starting and stopping it, its way to the leader."""
