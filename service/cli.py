"""The command `streamsvm`."""

import argparse
import os
import signal
import sqlite3
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import version
from typing import NoReturn

from streamsvm.reader.errors import InputError
from streamsvm.service.commands import COMMANDS, GROUPS
from streamsvm.service.errors import PROCESS_FAILURES, ModelFormatError, ServiceError
from streamsvm.service.forks.fork_server import fork_server
from streamsvm.service.obsolete_names import COMMANDS as GONE_COMMANDS
from streamsvm.service.obsolete_names import OPTIONS as GONE_OPTIONS
from streamsvm.service.processes.kernels import missing
from streamsvm.service.terminal.spelling import in_dashes, spell_out
from streamsvm.storage.errors import StorageError
from streamsvm.storage.machine.child import leave

# Exit codes: 0 converged, 4 not converged but the model is written, and these.
USAGE, BAD_DATA, OUT_OF_RESOURCE, INTERRUPTED = 2, 3, 5, 130


def command() -> NoReturn:
    """Run the command line and end the process with its exit code."""
    leave(main())


def main(arguments: list[str] | None = None) -> int:
    """Run the command line `arguments` (None: that of this process) and return its exit code."""
    words = spell_out(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["train"] and "--url" not in words and not missing("one"):
        fork_server()  # it loads the libraries of training while this process loads the command
    parser = _parser(words)
    if not words:
        print(parser.format_help(), end="", file=sys.stderr)
        return USAGE
    if words[0] in GONE_COMMANDS:
        return _complain(f"there is no command {words[0]!r} any more", GONE_COMMANDS[words[0]], USAGE)
    if near := _near(words):
        return _complain(f"there is no command {words[0]!r}", f"Did you mean {near}?", USAGE)
    # Parsing would take the removed --select for --select-by. An option that this command still has is not refused.
    gone = GONE_OPTIONS.keys() - set(_flags(parser))
    if told := {GONE_OPTIONS[flag]: flag for word in words if (flag := word.split("=")[0]) in gone}:
        parser.error("\n  ".join([f"unrecognized arguments: {' '.join(told.values())}", *told]))
    options, rest = parser.parse_known_args(words)
    if rest:
        parser.error(_not_known(rest, words[0], parser))
    # These signals raise KeyboardInterrupt, as Ctrl-C does, so that context managers clean up.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.default_int_handler)
    try:
        return options.run(options)
    except InputError as error:
        return _complain(str(error), in_dashes(error.hint), BAD_DATA)
    except ModelFormatError as error:
        return _complain(error.message, error.hint, BAD_DATA)
    except ServiceError as error:
        # The log of a reader or trainer that died is in a temporary directory, so its tail is shown here.
        sys.stderr.write(error.at.get("log_tail", ""))
        code = OUT_OF_RESOURCE if error.code in (*PROCESS_FAILURES, "ingest_failed", "no_service") else USAGE
        return _complain(f"{error.message} [{error.code}]", in_dashes(error.hint), code)
    except StorageError as error:
        return _complain(f"{error.message} [{error.code}]", in_dashes(error.hint), USAGE)
    except BrokenPipeError:
        # The program that reads our output has closed its end, as `head` does.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except sqlite3.Error as error:
        return _complain(f"the store of the data directory cannot be used: {error}", "", OUT_OF_RESOURCE)
    except FileNotFoundError as error:
        return _complain(f"there is no file {error.filename}", "", USAGE)
    except IsADirectoryError as error:
        pattern = f"Name a file, or files by a pattern in quotes: '{os.fspath(error.filename).rstrip('/')}/*'"
        return _complain(f"{error.filename} is a directory, not a file", pattern, USAGE)
    except (NotADirectoryError, PermissionError) as error:
        return _complain(str(error), "", USAGE)
    except OSError as error:
        return _complain(str(error), "", OUT_OF_RESOURCE)
    except KeyboardInterrupt:
        return INTERRUPTED


def _near(words: list[str]) -> str | None:
    """Return the known command most similar to an unknown one; None if it is known, or no command is similar."""
    if words[0] in COMMANDS or words[0].startswith("-"):
        return None
    return next(iter(get_close_matches(words[0], COMMANDS, 1)), None)


def _not_known(rest: list[str], command: str, parser: argparse.ArgumentParser) -> str:
    """Explain which arguments a command does not have; if all are files, the shell has expanded a pattern to them."""
    message = f"unrecognized arguments: {' '.join(rest)}"
    flags = [*_flags(_commands(parser)[command])]
    near = [flag for word in rest if word.startswith("--") for flag in get_close_matches(word.split("=")[0], flags, 1)]
    if near:
        return f"{message}\n  Did you mean {' '.join(near)}?"
    is_files = all(os.access(word, os.F_OK) for word in rest)
    return f"{message}\n  Put a pattern of several files in quotes: 'part-*.csv'" if is_files else message


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of a parser's subcommands, by name."""
    choices = (action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return {name: command for each in choices for name, command in each.items()}


def _flags(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the options of a command and of its actions, such as `--help`."""
    yield from parser._option_string_actions
    for action in _commands(parser).values():
        yield from _flags(action)


def _parser(words: list[str]) -> argparse.ArgumentParser:
    """Make the parser. Only the command that `words` begin with has its options: other modules are not imported."""
    parser = _Root(prog="streamsvm", description="Linear support vector machines on data larger than memory.")
    parser.add_argument("--version", action=_Version, nargs=0)
    kind = argparse.ArgumentParser  # commands must not inherit the help of _Root
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=kind)
    for name, help_ in COMMANDS.items():
        added = commands.add_parser(name, help=help_, description=help_)
        if words[:1] == [name]:
            module = import_module(f"streamsvm.service.commands.{name}")
            added.set_defaults(run=getattr(module, "run", None))
            module.add_arguments(added)
    return parser


class _Root(argparse.ArgumentParser):
    """Parser whose help shows the commands in groups, and fits a screen of 24 lines and 80 columns."""

    def format_help(self) -> str:
        groups = []
        for title, names in GROUPS.items():
            groups.append("\n".join([f"{title}:", *(f"  {name:<10}  {COMMANDS[name]}" for name in names)]))
        first = f"usage: {self.prog} COMMAND ...\n\n{self.description}"
        last = f"{self.prog} COMMAND --help shows the options of a command."
        return "\n".join([first, *groups, "", last, ""])


class _Version(argparse.Action):
    """Prints the version. Looking the version up is slow, so only `--version` does it."""

    def __call__(self, *_: object) -> NoReturn:
        print(f"streamsvm {version('streamsvm')}")
        sys.exit(0)


def _complain(message: str, hint: str, code: int) -> int:
    print(f"streamsvm: {message}", file=sys.stderr)
    if hint:
        print(f"  {hint}", file=sys.stderr)
    return code


if __name__ == "__main__":
    command()
