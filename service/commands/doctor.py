"""Check every byte of a data directory, and name what is damaged."""

import argparse
from collections.abc import Iterable
from dataclasses import asdict

from service.commands.local import add_local_arguments
from service.commands.remote import print_json
from service.records.doctor import Finding, examine
from service.settings import Settings

SOUND, DAMAGED = 0, 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `streamsvm doctor`."""
    add_local_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Look, and change nothing; a service may run meanwhile."""
    return report(examine(Settings.from_environment(options.data_dir)), options.json)


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
