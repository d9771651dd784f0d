"""Several machines: real Ray nodes on this one."""
