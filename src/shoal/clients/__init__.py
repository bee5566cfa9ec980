"""Clients as machines, in both worlds, and what they and their brokers say to each other."""
