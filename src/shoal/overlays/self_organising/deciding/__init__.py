"""Which link is to be exchanged for which: interest, costs, neighbourhood, consensus."""
