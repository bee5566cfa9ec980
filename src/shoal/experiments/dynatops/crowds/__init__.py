"""The users of a run, and what they want when: drawn, of real data, or in the air."""
