"""Nodes of several versions side by side: of the last one before feature levels, of this one, and of a newer one."""
