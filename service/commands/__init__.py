"""The names of the commands of `streamsvm`, with their help.

A command's module has the same name and two functions: `add_arguments(parser)`, and `run(options)`, which returns the
exit code; if the command has actions, their parsers say what runs. Only the module of the command that runs is
imported: some take a second.
"""

COMMANDS = {
    "demo": "Try eight values of C on generated text, beside LIBLINEAR.",
    "train": "Train a model on a file.",
    "predict": "Predict the labels of a file, or numbers, with a model file.",
    "evaluate": "Evaluate a model file on a file whose rows have labels.",
    "data": "Datasets of a service: add, ls, rm, verify.",
    "job": "Jobs of a service: ls, show, watch, stop, cancel, resume, rm.",
    "prediction": "Predictions of files by a service: ls, show, cancel, rm.",
    "model": "Models of a service: get, ls, show, threshold, register, alias.",
    "serve": "Run the service: the REST interface and its worker.",
    "worker": "Run the worker alone: the process that trains queued jobs.",
    "token": "Make, list and revoke the tokens that let others use the service.",
    "doctor": "Check every byte of a data directory, and name what is damaged.",
    "warm": "Compile kernels ahead, which the first training would wait for.",
    "backup": "Copy a data directory, while a service runs on it.",
}

# Groups in which the help shows the commands.
GROUPS = {
    "On this machine, without a service": ("demo", "train", "predict", "evaluate"),
    "With a service (--url, or STREAMSVM_URL; `train --url` trains there)": ("data", "job", "prediction", "model"),
    "To run a service": ("serve", "worker", "token", "doctor", "warm", "backup"),
}
