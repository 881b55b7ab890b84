"""What brings events from outside and takes them there: a folder for each technology."""
