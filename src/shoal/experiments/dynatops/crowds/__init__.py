"""The users of a run, with their interests over time: drawn, of real data, or in the air."""
