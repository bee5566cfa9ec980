"""Copies of a publication and their paths, and publications that wait for a path."""
