"""The simulated world: time, machines, disks, TCP, storage, faults."""
