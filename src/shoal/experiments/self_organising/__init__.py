"""The evaluation of Cost and Interest: what links cost that brokers choose."""
