"""What a process stands on: its clocks and disk, its tasks, its fail points, and how it ends."""
