"""Clients of a cluster: requests, answers, the handle of a deployed app."""
