"""Managers and workers: minds that decide (`state`, `election`, `placement`) and shells that act."""
