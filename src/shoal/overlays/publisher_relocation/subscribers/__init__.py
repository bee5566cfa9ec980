"""Subscribers that move, by what GRAPE traces."""
