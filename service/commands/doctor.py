"""Check every byte of a data directory, and name what is damaged."""

import argparse
from collections.abc import Iterable
from dataclasses import asdict

from streamsvm.service.records.doctor import Finding, adopt, examine, put_aside
from streamsvm.service.settings import Settings
from streamsvm.service.terminal.remote import add_local_arguments, print_json

SOUND, DAMAGED = 0, 3
_ACTIONS = {
    "put-aside": (put_aside, "move what has no record below DATA_DIR/aside; no service may run"),
    "adopt": (adopt, "record whole datasets and models that have no record, in a new store if there is none"),
}
_DONE = {"put-aside": "put aside", "adopt": "recorded"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `streamsvm doctor` to the parser."""
    add_local_arguments(parser)
    actions = parser.add_mutually_exclusive_group()
    for option, (_, help_) in _ACTIONS.items():
        actions.add_argument(f"--{option}", dest="action", action="store_const", const=option, help=help_)


def run(options: argparse.Namespace) -> int:
    """Print faults without changing anything, or carry out --put-aside or --adopt; return the exit code."""
    settings = Settings.from_environment(options.data_dir)
    if options.action is None:
        return report(examine(settings), options.json)
    act, _ = _ACTIONS[options.action]
    done = [str(path) for path in act(settings)]
    if options.json:
        print_json({"done": done})
    else:
        print("\n".join([*done, f"{len(done)} {_DONE[options.action]}"]))
    return SOUND


def report(findings: Iterable[Finding], as_json: bool) -> int:
    """Print findings; return the exit code, DAMAGED if one of them is damage, else SOUND."""
    faults = list(findings)
    is_sound = not any(finding.is_damage for finding in faults)
    if as_json:
        print_json({"sound": is_sound, "findings": [asdict(finding) for finding in faults]})
    else:
        for finding in faults:
            print(f"{finding.kind} {finding.name}: {finding.message} [{finding.code}]")
        print("sound" if is_sound else "damaged")
    return SOUND if is_sound else DAMAGED
