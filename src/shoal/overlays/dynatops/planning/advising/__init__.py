"""What an operator is advised: swaps and moves, by what each saves and costs."""
