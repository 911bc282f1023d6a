"""What must hold of what happened: watched from inside, and judged afterwards."""
