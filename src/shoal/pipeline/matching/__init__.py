"""Tables of publications against tables of subscriptions, by Spark."""
