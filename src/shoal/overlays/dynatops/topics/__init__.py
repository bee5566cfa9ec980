"""What brokers want, and how publications reach them: by topic, over its root."""
