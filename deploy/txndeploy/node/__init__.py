"""A node's process: its configuration, and the groups and services that it holds."""
