"""Topics of users in Kafka. Those between groups are in `spdist.transports.kafka`."""
