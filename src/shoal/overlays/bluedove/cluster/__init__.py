"""Who is in a cluster and what is decided about it, free of messages."""
