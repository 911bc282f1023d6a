"""Locks that writes and programs take, and strategies that decide conflicts."""
