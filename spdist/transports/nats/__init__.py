"""Topics in NATS JetStream."""
