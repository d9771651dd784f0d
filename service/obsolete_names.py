"""Names of fields, routes, settings and others that this version lacks, each with what to use instead.

Who uses a removed field, route, setting, command or option gets its sentence as the answer. In stored jobs, removed
fields are ignored. CHANGELOG.md lists the removals by version.
"""

import json
import os
import sys

PAPER = "streamsvm_paper"
PAPER_FIELDS = {
    "paper_epsilon": "epsilon_start",
    "paper_beta": "epsilon_decay",
    "paper_reset": "epsilon_reset",
    "paper_gradient": "epsilon_gradient",
}

_CHAT = "Follow a job and tell its end: api/python/examples/follow_to_chat.py."
_SCORING = 'It is scoring, by the names of scikit-learn: "scoring": "roc_auc", or "neg_mean_squared_error".'
_MLFLOW = "Follow a job and log it: api/python/examples/follow_to_mlflow.py."

# Option of solvers that was once a field of all jobs -> the solvers that have it, and an example of a value.
SOLVER_OPTIONS = {
    "updates_per_row": (f'"streamsvm", "{PAPER}"', 4.0),
    "screening": ('"streamsvm"', 0.0),
    "spill": ('"streamsvm"', False),
    "epsilon_start": (f'"{PAPER}"', 9.0),
    "epsilon_decay": (f'"{PAPER}"', "sweep"),
    "epsilon_reset": (f'"{PAPER}"', True),
    "epsilon_gradient": (f'"{PAPER}"', "projected"),
    "schedule": ('"avsf"', "paper"),
    "n_blocks": ('"bm", "sbm", "pegasos", "cpa", "ocas", "bsca", "bsgd"', 8),
    "permute_blocks": ('"bm", "sbm", "pegasos", "bsca", "bsgd"', False),
    "inner_rounds": ('"bm", "sbm"', 10),
    "select": ('"sbm"', "gap"),
    "cache_share": ('"sbm"', 0.5),
    "update": ('"pegasos"', "block"),
    "max_cuts": ('"cpa", "ocas"', 200),
    "merge": ('"bsca", "bsgd"', "golden"),
    "candidates": ('"bsca", "bsgd"', 59),
    "selection": ('"bsca"', "adaptive"),
}

# Field of a job -> a sentence.
FIELDS = {
    "eviction": f'The rule of the paper is a solver of its own: "solver": "{PAPER}".',
    "notify": _CHAT,
    "select_by": _SCORING,
    **{
        name: f'It is an option of solver {solvers}: "solver_options": {json.dumps({name: value})}.'
        for name, (solvers, value) in SOLVER_OPTIONS.items()
    },
}
FIELDS |= {old: f"It is {new} now. {FIELDS[new]}" for old, new in PAPER_FIELDS.items()}
# The beginning of a path -> a sentence.
ROUTES = {
    "/v2/models": "POST /v1/models/{model_id}/predict predicts rows, GET /v1/models/{model_id} describes the model.",
    "/v2/repository": "GET /v1/models lists models, GET /v1/registered-models their names and versions.",
}
# STREAMSVM_ variable -> a sentence.
SETTINGS = {
    "STREAMSVM_NOTIFY_HOSTS": _CHAT,
    "STREAMSVM_NOTIFY_SECRET": _CHAT,
    "STREAMSVM_MLFLOW_URI": _MLFLOW,
    "STREAMSVM_MLFLOW_EXPERIMENT": _MLFLOW,
    "STREAMSVM_MAX_CLIENT_BYTES": "Clients share the disk: STREAMSVM_MAX_UPLOAD_BYTES limits each upload.",
    "STREAMSVM_HEADER_SECONDS": "A client has 10 seconds to send the head of a request; a proxy may be stricter.",
    "STREAMSVM_IDLE_SECONDS": "A connection stays open for 75 seconds between two requests; a proxy may be stricter.",
    "STREAMSVM_BODY_SECONDS": "A body or an answer may pause for a minute; STREAMSVM_LEAST_BYTES_PER_SECOND stays.",
    "STREAMSVM_MAX_INFER_BYTES": "There are no tensors any more: STREAMSVM_MAX_JSON_BYTES limits rows in JSON.",
}
# Format of models -> a sentence.
FORMATS = {
    "json": "Take npz, which numpy reads, too. Version 0.2 makes it of a file: "
    'streamsvm.load("m.json").save("m.npz") in Python.'
}
# Command, or option of a command -> a sentence.
COMMANDS = {"completion": "Shells complete the names of files by themselves; streamsvm COMMAND --help lists options."}
OPTIONS = {
    "--notify": _CHAT,
    "--select-by": f"{_SCORING} The option is --scoring.",
    "--data": "streamsvm train FILE trains on a file of yours; the demo generates its own.",
    "--port": "streamsvm serve has it; the demo runs no service any more.",
    **{
        f"--{no}{name.replace('_', '-')}": f"It is --solver-option {name}={shown}."
        for name, (_, value) in SOLVER_OPTIONS.items()
        for no, shown in ((("", "true"), ("no-", "false")) if isinstance(value, bool) else (("", value),))
    },
}


def gone_route(path: str) -> str:
    """Return the sentence for a path that an earlier version served; "" for any other path."""
    return next((told for start, told in ROUTES.items() if f"{path}/".startswith(f"{start}/")), "")


def tell_gone_settings() -> None:
    """Warn on stderr of each environment variable that this version ignores, and say what to use instead."""
    for name, told in SETTINGS.items():
        if name in os.environ:
            print(f"streamsvm: {name} means nothing any more. {told}", file=sys.stderr, flush=True)
