"""Chaos tests: networks of processes under random faults, with an independent client and judge.

`schedule.py` makes a plan from a seed: brokers, clients, and faults with their times. `run.py`
plays the plan on real brokers (`network.py`). Its clients (`client.py`, `packets.py`) record events
(`history.py`), and `judge.py` compares them with the guarantees in docs/background/guarantees.md.
"""
