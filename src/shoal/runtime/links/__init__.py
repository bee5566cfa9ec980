"""Links between live brokers: who connects to whom, and what came over them."""
