"""Arguments and calls of the ops."""
