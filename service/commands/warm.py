"""Compile kernels ahead, which the first training would wait for."""

import argparse
import sys

from streamsvm.service.processes.kernels import STEPS, compile_kernels, missing, show_bar


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """There are no options."""


def run(_options: argparse.Namespace) -> int:
    """Compile the kernels of ordinary jobs that are not."""
    seconds = compile_kernels(show_bar(sys.stderr), missing(*STEPS, or_unknown=True))
    print(f"the kernels of ordinary jobs are compiled ({seconds:.1f} s)")
    return 0
