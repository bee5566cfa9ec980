"""Runs of scenarios: one or several at once, their tables, sums and folders."""
