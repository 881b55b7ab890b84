"""What listens: sockets with their bounds, TLS, and who may come in."""
