"""Advice to an operator: swaps and moves, with their savings and costs."""
