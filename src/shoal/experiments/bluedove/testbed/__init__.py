"""What the evaluation of BlueDove measures with: simulated clusters, their costs and their load."""
