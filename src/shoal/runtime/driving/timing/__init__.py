"""The time that one live broker goes by, and what is to be done at which."""
