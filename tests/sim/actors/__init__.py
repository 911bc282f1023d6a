"""The programs and people of the simulated world."""
