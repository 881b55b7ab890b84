"""What all operators stand on: streams, handlers, arguments, and state as bytes."""
