"""Clients as machines, for the simulator and the live network, and their broker messages."""
