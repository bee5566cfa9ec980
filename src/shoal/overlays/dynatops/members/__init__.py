"""Who stands where: views, and how brokers agree on the next one."""
