"""The commands, by name, with what each does. Its module, of the same name, has `add_arguments(parser)` and
`run(options)`, which returns the exit code; only that of the command in question is imported: some take a second."""

COMMANDS = {
    "serve": "Run the service: the REST interface and its worker.",
    "worker": "Run the worker alone: the process that trains queued jobs.",
    "train": "Train a model on a file.",
    "predict": "Predict the labels of a file, or numbers, with a model file.",
    "data": "Datasets of a service: add, ls, rm, verify.",
    "job": "Jobs of a service: ls, show, watch, stop, cancel, resume, rm.",
    "model": "Models of a service: get, ls.",
    "plot": "Plot how a job of a service converges, and its cross-validation.",
    "token": "Make, list and revoke the tokens that let others use the service.",
    "doctor": "Check a data directory: the store, and every byte of its datasets, models and checkpoints.",
    "completion": "Print the script that completes commands in a shell.",
}
