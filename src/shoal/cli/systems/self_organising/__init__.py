"""Brokers that choose their links: which they recommend, and what became of those they proposed."""
