"""Independent checkers, and the deliveries that faults excuse."""
