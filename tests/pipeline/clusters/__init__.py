"""Spark that is not in this process: a standalone cluster, and a server of Spark Connect."""
