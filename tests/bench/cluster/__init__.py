"""Several machines: real Ray nodes on this one, and a simulation of many."""
