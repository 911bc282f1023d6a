"""The past of the tables: savepoints hold it, and undo and restore go back to it."""
