"""Who stands where in the product, and how brokers hear of it."""
