"""Why something came out, and what happened step by step: logs of inputs, replayed."""
