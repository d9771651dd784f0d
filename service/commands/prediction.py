"""Predictions of files by a service: ls, show, cancel, rm."""

import argparse
from typing import Any

from streamsvm.service.jobs.progress.states import PREDICTION_STATES
from streamsvm.service.remote.client import Client, RemotePrediction
from streamsvm.service.terminal.remote import add_action, print_json, print_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `streamsvm prediction`, and their options, to the parser."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    add_action(actions, "ls", ls).add_argument("--state", choices=PREDICTION_STATES)
    for action in (show, cancel, rm):
        add_action(actions, action.__name__, action).add_argument("prediction", help="its id, prd_...")


def ls(options: argparse.Namespace) -> int:
    """List predictions of files, the newest first."""
    predictions = [each.view for each in Client(options.url).predictions(options.state)]
    if options.json:
        print_json({"predictions": predictions})
        return 0
    rows = [["PREDICTION", "STATE", "MODEL", "FROM", "TO", "DONE", "CREATED"]]
    for each in predictions:
        spec = each["spec"]
        names = [spec["model"], _source(spec), spec["destination"], _share(each["progress"])]
        rows.append([each["id"], each["state"], *names, each["created_at"]])
    print_table(rows)
    return 0


def show(options: argparse.Namespace) -> int:
    """Print the state and the figures of a prediction of files."""
    _show(_prediction(options).refresh().view, options.json)
    return 0


def cancel(options: argparse.Namespace) -> int:
    """Ask a prediction of files to end; nothing stays at its destination."""
    _show(_prediction(options).cancel().view, options.json)
    return 0


def rm(options: argparse.Namespace) -> int:
    """Delete the record of a prediction that has ended; its file stays."""
    _prediction(options).delete()
    return 0


def _prediction(options: argparse.Namespace) -> RemotePrediction:
    return RemotePrediction(Client(options.url), options.prediction)


def _source(spec: dict[str, Any]) -> str:
    return spec["import"] if spec.get("dataset") is None else f"dataset {spec['dataset']}"


def _share(progress: dict[str, Any] | None) -> str:
    """Write the share of the input that has been predicted, such as 12%; "" if it is unknown."""
    return f"{progress['bytes'] / progress['total_bytes']:.0%}" if progress and progress["total_bytes"] else ""


def _show(shown: dict[str, Any], is_json: bool) -> None:
    if is_json:
        print_json(shown)
        return
    spec, requested = shown["spec"], ""
    if shown["requested"] and shown["state"] == "running":
        requested = f", {shown['requested']} requested"
    print(f"{shown['id']}  {shown['state']}{requested}  by {spec['model']}, attempt {shown['attempt']}")
    print(f"{_source(spec)} to {spec['destination']}, model {shown['model_id']}")
    if progress := shown["progress"]:
        print(f"{progress['rows']:,} rows predicted, {_share(progress)} of the input")
    if judged := (shown["result"] or {}).get("judged"):
        print(judged)
    if failure := shown["failure"]:
        print(f"{failure['message']} [{failure['code']}]")
