"""How events travel: the contract of a topic, the embedded log, payloads, and feeds."""
