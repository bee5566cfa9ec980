"""Users that go to brokers where others want the same."""
