"""Independent implementations and recordings that the results of the ops are compared with."""
