"""What becomes of a running app when another version of it is deployed."""
