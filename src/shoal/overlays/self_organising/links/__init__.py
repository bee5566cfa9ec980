"""A tree whose links change: what belongs to it, how it heals, what is remembered."""
