"""The machine: processes, memory, cores, compiled kernels."""
