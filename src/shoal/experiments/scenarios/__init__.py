"""Scenarios: everything a simulated run depends on, and the changes that a seed draws from them."""
