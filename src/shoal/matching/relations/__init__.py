"""Filters against filters: covering, overlap, unions, and the sets these are decided by."""
