"""The console: one web page for a whole running network.

`shoal console NETWORK.toml` is a process of its own. It reads each broker's stream of events
(`runtime/events`), keeps the network's state and its last ten minutes in memory, and serves pages
that follow it. Brokers serve no pages, and the console may come and go without a change at them.

| module | contents |
| --- | --- |
| `feed.py` | the connection to one broker's stream; again and again, from the last event on |
| `gathering.py` | one feed per broker of the network, those that join among them |
| `view.py` | the state of the network, from events: pure |
| `history.py` | totals by second: pure |
| `asking.py` | questions and orders to brokers' admin ports, when a page asks |
| `access.py` | the token that a page needs, and the hosts that it may name |
| `server.py` | pages, their stream, and their questions |

The console has the rights of the operator whose credentials it was started with. So a page needs a
random token, which the printed address has and a cookie keeps; without `--orders` the console
refuses every order. Payloads stay at the brokers: filters are tried there.

The pages are built from `web/console/` by esbuild into `static/`, which the wheel has.
"""
