"""Compile kernels ahead, which the first training would wait for."""

import argparse
import sys

from streamsvm.service.processes.kernels import STEPS, compile_kernels, missing, show_bar


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Add nothing: `streamsvm warm` has no options."""


def run(_options: argparse.Namespace) -> int:
    """Compile those kernels of ordinary jobs that are not compiled yet; return the exit code."""
    seconds = compile_kernels(show_bar(sys.stderr), missing(*STEPS, or_unknown=True))
    print(f"the kernels of ordinary jobs are compiled ({seconds:.1f} s)")
    return 0
