"""Gives the log of a broker to readers, over HTTP."""
