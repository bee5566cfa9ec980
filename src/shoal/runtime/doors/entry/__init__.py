"""Who is let in: passwords, rules, and a line in the log for who is not."""
