"""Rings of topic trees: who should be elsewhere, who stands where, what was decided."""
