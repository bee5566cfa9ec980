"""Subscriptions of one broker's clients, single and shared."""
