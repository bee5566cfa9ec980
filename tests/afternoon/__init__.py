"""An ordinary afternoon of an operator: one network with clients, and twenty operations in a row.

`python -m tests.afternoon SYSTEM` plays it. The operations follow each other on the same processes
and folders, so each one meets the traces of all earlier ones. `tests/live/membership` plays single
operations, and `tests/chaos` random faults.

`network.py` starts brokers with certificates and gives commands with a bound. `clients.py` and
`programs.py` have publishers and subscribers. `ledger.py` compares acknowledgements with deliveries
and knows the exceptions of docs/background/guarantees.md. `morning.py` and `outages.py` are the
steps, in this order, and `play.py` plays them.
"""
