"""Requests: what others send to an address, and what is sent to one."""
