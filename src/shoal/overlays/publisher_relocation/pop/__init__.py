"""POP: publishers move step by step towards where most of their publications go."""
