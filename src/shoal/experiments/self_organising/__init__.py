"""The evaluation of Cost and Interest: the costs of links that brokers choose."""
