"""Real servers for development and tests, each a process of this machine that ends with whoever started it.

A Kafka broker (its artifacts come from Maven's central repository, once) and a NATS server (a program from PyPI or on
the PATH). They listen on 127.0.0.1 only, without passwords: for production bring your own.
"""
