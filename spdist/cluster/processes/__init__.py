"""Nodes on this machine, as processes of their own."""
