"""What commands about live networks share: how brokers and clients' listeners are asked."""
