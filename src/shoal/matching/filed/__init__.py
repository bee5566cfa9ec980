"""The index's inside for one publication at a time, in plain Python."""
