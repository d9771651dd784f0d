"""Jobs of a service: ls, show, watch, stop, cancel, resume, rm."""

import argparse
from typing import Any

from streamsvm.service.jobs.progress.states import TRANSITIONS, gap_of
from streamsvm.service.remote.client import Client, RemoteJob
from streamsvm.service.terminal.display import best_so_far, display, duration, progress_line, scored, short
from streamsvm.service.terminal.remote import add_action, exit_code, print_json, print_table, watch
from streamsvm.service.terminal.spelling import in_dashes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `streamsvm job`, and their options, to the parser."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    add_action(actions, "ls", ls).add_argument("--state", choices=TRANSITIONS)
    for action in (show, watch_job, stop, cancel, resume, rm):
        name = action.__name__.removesuffix("_job")
        parser = add_action(actions, name, action)
        parser.add_argument("job", help="its id, job_...")
        if action is resume:
            add_end_arguments(parser)


def add_end_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `job resume`, which say when the new job ends."""
    parser.add_argument("--max-passes", type=int, help="passes, with those of the old job (default: as before)")
    parser.add_argument("--max-seconds", type=float, help="seconds, with those of the old job (default: as before)")
    parser.add_argument("--tolerance", type=float, help="stop at M+ - M- of this (default: as before)")
    parser.add_argument("--relative-gap", type=float, help="stop at this certified relative gap (default: as before)")


def ls(options: argparse.Namespace) -> int:
    """List jobs, the newest first."""
    jobs = [job.view for job in Client(options.url).jobs(options.state)]
    if options.json:
        print_json({"jobs": jobs})
        return 0
    rows = [["JOB", "STATE", "DATASET", "C", "SCORE", "M+ - M-", "TIME", "CREATED"]]
    for job in jobs:
        spec, seconds = job["spec"], (job["progress"] or {}).get("elapsed_seconds")
        Cs = spec["C"] if isinstance(spec["C"], list) else [spec["C"]]
        figures = [
            ",".join(each if isinstance(each, str) else short(each) for each in Cs),
            scored(job.get("score")) or best_so_far(job["progress"]),
            short(gap_of(job)),
        ]
        time = "" if seconds is None else duration(seconds)
        rows.append([job["id"], job["state"], spec["dataset"], *figures, time, job["created_at"]])
    print_table(rows)
    return 0


def show(options: argparse.Namespace) -> int:
    """Show a job."""
    _show(_job(options).refresh().view, options.json)
    return 0


def watch_job(options: argparse.Namespace) -> int:
    """Show a job while it runs. The exit code is that of `train`."""
    watched = _job(options).refresh()
    spec = watched.view["spec"]
    lines = display(options.json, spec["tolerance"], spec.get("relative_gap"))
    job = watch(watched, lines)
    code = exit_code(job)
    if job["result"]:
        lines.finish({**job["result"], "score": job["score"]}, None)
        lines.say(f"{job['state']}, model {job['model_id']}")
    return code


def stop(options: argparse.Namespace) -> int:
    """Ask a job to end soon, with the model that it has by then."""
    _show(_job(options).stop().view, options.json)
    return 0


def cancel(options: argparse.Namespace) -> int:
    """Ask a job to end at once, without a model."""
    _show(_job(options).cancel().view, options.json)
    return 0


def resume(options: argparse.Namespace) -> int:
    """Continue a job that has ended, as a new job that ends later."""
    names = ("max_passes", "max_seconds", "tolerance", "relative_gap")
    changes = {name: value for name in names if (value := getattr(options, name)) is not None}
    _show(_job(options).resume(**changes).view, options.json)
    return 0


def rm(options: argparse.Namespace) -> int:
    """Delete the record of a job that has ended; its model stays."""
    _job(options).delete()
    return 0


def _job(options: argparse.Namespace) -> RemoteJob:
    return RemoteJob(Client(options.url), options.job)


def _show(job: dict[str, Any], is_json: bool) -> None:
    if is_json:
        print_json(job)
        return
    phase = f" ({job['phase']})" if job["phase"] else ""
    requested = f", {job['requested']} requested" if job["requested"] and job["state"] == "running" else ""
    print(f"{job['id']}  {job['state']}{phase}{requested}  on {job['spec']['dataset']}, attempt {job['attempt']}")
    if job["progress"]:
        shown = {**job["progress"], "gap": gap_of(job), **({"best_C": None} if job["score"] else {})}
        print(progress_line(shown, job["spec"]["tolerance"], job["spec"].get("relative_gap")))
        print(f"for {duration(job['progress']['elapsed_seconds'])}")
    for warning in job["warnings"]:
        print(
            f"warning: {warning['message']}"
            + (f". {in_dashes(warning['hint'])}" if "hint" in warning else "")
            + f" [{warning['code']}]"
        )
    if job["failure"]:
        print(f"{job['failure']['message']} [{job['failure']['code']}]")
    if job["model_id"]:
        print(f"model {job['model_id']}" + (f", {scored(job['score'])}" if job.get("score") else ""))
