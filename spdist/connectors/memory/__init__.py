"""In-memory topics that the apps of one machine share."""
