"""The machine: processes, memory, cores, the health of disks, compiled kernels."""
