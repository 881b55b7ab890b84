"""Who leads: elections by the coordination database, and how long a leadership lasts."""
