"""Subscriptions and advertisements that brokers know, and their propagation."""
