"""Decisions on link exchanges: interest, costs, neighbourhood, consensus."""
