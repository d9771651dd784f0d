"""Other solvers of the same problem, each run in a process of its own. A peer is a module with

    BYTES_PER_VALUE   of memory it needs, for each value of the data, about; None if that does not grow with the data
    SECONDS_ARE       what its seconds cover, in words
    run(data, C)      a generator: yields None once it is ready to train, then a `Trial` for each run of the solver

A module whose library or program is missing raises ImportError, from `run` at the latest.
"""

# name -> module of this package
PEERS = {
    "LIBLINEAR": "liblinear",
    "LinearSVC": "linear_svc",
    "SGDClassifier": "sgd",
    "Vowpal Wabbit": "vowpal",
    "OCAS": "ocas",
}
