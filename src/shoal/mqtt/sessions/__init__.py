"""What a broker keeps about its clients: sessions, subscriptions, retained messages."""
