"""Print the script that completes commands in a shell."""

import argparse

import shtab


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `streamsvm completion`."""
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"))


def run(options: argparse.Namespace) -> int:
    """Print the script. For bash: streamsvm completion bash > ~/.local/share/bash-completion/completions/streamsvm"""
    print(shtab.complete(options.root, options.shell))
    return 0
