"""Rings of topic trees: better places, current places, recent decisions."""
