"""What a user would pick instead, each with a client as good as Python has."""
