"""Judges that stand outside the brokers, and what faults excuse."""
