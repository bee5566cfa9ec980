"""The study's fast model of brokers that choose links, and the judges of it."""
