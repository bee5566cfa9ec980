"""Places of brokers in the product, and their announcements."""
