"""What ``@map`` stands for: payloads made of events, and events made of payloads. Pure: no transport, no clock."""
