"""Check every byte of a data directory, and name what is damaged."""

import argparse
from collections.abc import Iterable
from dataclasses import asdict

from streamsvm.service.commands.local import add_local_arguments
from streamsvm.service.commands.remote import print_json
from streamsvm.service.records.doctor import Finding, examine
from streamsvm.service.records.strays import adopt, put_aside
from streamsvm.service.settings import Settings

SOUND, DAMAGED = 0, 3
_ACTIONS = {
    "put-aside": (put_aside, "move what is on no record below DATA_DIR/aside; no service may run"),
    "adopt": (adopt, "put datasets and models that are on no record on record, in a new store if there is none"),
}
_DONE = {"put-aside": "put aside", "adopt": "put on record"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `streamsvm doctor`."""
    add_local_arguments(parser)
    asked = parser.add_mutually_exclusive_group()
    for option, (_, help_) in _ACTIONS.items():
        asked.add_argument(f"--{option}", dest="action", action="store_const", const=option, help=help_)


def run(options: argparse.Namespace) -> int:
    """Look, and change nothing; a service may run meanwhile. Or see to what is on no record."""
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
    """Print them; the exit code says whether one is damage."""
    found = list(findings)
    is_sound = not any(finding.is_damage for finding in found)
    if as_json:
        print_json({"sound": is_sound, "findings": [asdict(finding) for finding in found]})
    else:
        for finding in found:
            print(f"{finding.kind} {finding.name}: {finding.message} [{finding.code}]")
        print("sound" if is_sound else "damaged")
    return SOUND if is_sound else DAMAGED
