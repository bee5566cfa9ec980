"""Which broker a client is at, and which brokers are told so."""
