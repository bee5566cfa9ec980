"""What an operator does in a week, each to its end, while plain clients go on."""
