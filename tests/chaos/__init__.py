"""Chaos: networks of processes under random faults, clients of their own, a judge outside.

`schedule.py` makes of a seed who takes part and what goes wrong when, `run.py` plays it on real
brokers (`network.py`), whose clients (`client.py`, `packets.py`) write down what they saw
(`history.py`); `judge.py` says what was broken of what docs/background/guarantees.md promises.
"""
