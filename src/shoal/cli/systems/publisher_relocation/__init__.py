"""Publishers and subscribers that move: why they did."""
