"""An ordinary week of a network: plain clients all the time, and what an operator does."""
