"""Reasons for requests to wait at a live broker: it is not ready, links are full, too much is under
way.
"""
