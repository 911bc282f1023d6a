"""Foreign participants: the protocol that another system keeps, its host, and PostgreSQL."""
