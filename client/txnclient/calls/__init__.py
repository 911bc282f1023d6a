"""How a program reaches the managers: connections, retries, deadlines, forks."""
