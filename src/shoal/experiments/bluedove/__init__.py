"""The evaluation of BlueDove: which rates and how many subscriptions a cluster sustains."""
