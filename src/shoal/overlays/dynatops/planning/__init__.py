"""Who should stand where: pure functions of what is known, free of brokers and messages."""
