"""POP: publishers move step by step towards most of their subscribers."""
