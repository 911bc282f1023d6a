"""Files that were there before, that others read, that lie elsewhere, and that are bad."""
