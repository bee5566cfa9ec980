"""Members of a cluster, and decisions about them, free of messages."""
