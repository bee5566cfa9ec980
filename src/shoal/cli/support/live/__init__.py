"""Helpers of commands about live networks: queries to brokers and to clients' listeners."""
