"""Makes workloads of publications: publishers, subscribers, brokers, and times."""
