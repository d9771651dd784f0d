"""Other solvers of the same problem, each run in a process of its own. A peer is a module with

    BYTES_PER_VALUE         of memory it needs, for each value of the data, about; None if that does not grow with them
    SECONDS_ARE             what its seconds cover, in words
    run(data, C, **fields)  a generator: yields None once it is ready to train, then a `Trial` for each run of the
                            solver; `fields` are those of the registry

A module whose library or program is missing raises ImportError, from `run` at the latest. One whose library has the
module name of another says in REQUIREMENT what is to be installed apart from the others (apart.py).
"""

from __future__ import annotations

# name -> (module of this package, fields of its run)
PEERS: dict[str, tuple[str, dict[str, int]]] = {
    "LIBLINEAR": ("liblinear", {}),
    "liblinear-multicore, 1 thread": ("liblinear_multicore", {"threads": 1}),
    "liblinear-multicore, 2 threads": ("liblinear_multicore", {"threads": 2}),
    "Snap ML, 1 thread": ("snapml", {"threads": 1}),
    "Snap ML, 2 threads": ("snapml", {"threads": 2}),
}
