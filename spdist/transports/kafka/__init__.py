"""Topics in a Kafka cluster."""
