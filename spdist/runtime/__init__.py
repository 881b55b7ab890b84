"""What runs on a worker: group instances, their health, and the revisions of their state."""
