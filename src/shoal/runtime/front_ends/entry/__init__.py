"""Client admission: passwords, rules, and a log line for each refusal."""
