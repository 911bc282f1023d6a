"""Backup: one cut through all groups as files, and the directories of new nodes made of it."""
