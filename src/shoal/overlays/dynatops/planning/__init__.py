"""Planning of brokers' places: pure functions, free of brokers and messages."""
