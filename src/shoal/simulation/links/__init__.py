"""Links of a simulated network, and the latencies below them."""
