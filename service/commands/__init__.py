"""The commands, by name. A module has `add_arguments(parser)` and `run(options)`, which returns the exit code."""

from service.commands import completion, data, doctor, job, model, plot, predict, serve, token, train, worker

COMMANDS = {
    "serve": serve,
    "worker": worker,
    "train": train,
    "predict": predict,
    "data": data,
    "job": job,
    "model": model,
    "plot": plot,
    "token": token,
    "doctor": doctor,
    "completion": completion,
}
