"""Participants: tables whose writes commit or abort with their transaction."""
