"""Test bed of the evaluation of BlueDove: simulated clusters, their costs and their load."""
