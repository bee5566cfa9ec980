"""Subscribers that move, decided by GRAPE's traces."""
