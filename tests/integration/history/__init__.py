"""The past of the tables, against real nodes: savepoints, undo, restore, the timeline."""
