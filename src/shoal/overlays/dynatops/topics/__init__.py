"""Subscriptions, and publications to them: by topic, over its root."""
