"""What is compiled: what the text of programs calls, and the compiler."""
