"""Written cases: an app, what is sent to it, and what comes out, replayed in virtual time."""

from spdist.replay.cases import run_case

__all__ = ["run_case"]
