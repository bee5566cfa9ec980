"""What brokers know of who wants and who publishes what, and how that travels."""
