"""Which copies of a publication go which way, and what waits for one."""
