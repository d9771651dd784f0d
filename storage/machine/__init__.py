"""The machine: processes, memory, cores, speed and free space of disks, compiled kernels."""
