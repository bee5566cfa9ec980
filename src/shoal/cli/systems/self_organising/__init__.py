"""Brokers that choose their links: their recommendations, and the outcomes of their proposals."""
