"""Jobs: notebooks that run every so often. `schedules` and `due` decide and are pure; `scheduler` is the shell."""
