"""Try it all on generated text: train out of core, certify, predict."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from streamsvm.service.commands.display import Picture, TerminalPicture
from streamsvm.service.demo.data import generated, user_data
from streamsvm.service.demo.running import running_service
from streamsvm.service.demo.session import TOLERANCE, Session, compare, say, show_seconds, what_next
from streamsvm.service.jobs.fields.from_text import parse_size
from streamsvm.service.processes.kernels import compile_kernels, show_bar


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `streamsvm demo`."""
    parser.add_argument("--data", type=Path, help="LIBSVM text, plain or compressed (default: generate it)")
    parser.add_argument(
        "--size", type=parse_size, default="200MB", help="size of the generated text (default: %(default)s)"
    )
    parser.add_argument("--port", type=int, default=0, help="port of the service (default: a free one)")


def run(options: argparse.Namespace) -> int:
    """Run the demo. All processes and files that it makes are removed, however it ends."""
    seconds = {"kernels": compile_kernels(show_bar(sys.stderr))}
    with tempfile.TemporaryDirectory(prefix="streamsvm-demo-") as name:
        directory, began = Path(name), time.perf_counter()
        if options.data:
            say(f"StreamSVM trains on {options.data} with a tenth of it in memory")
            data = user_data(directory, options.data)
        else:
            say(f"StreamSVM trains on {options.size / 1e6:,.0f} MB of generated text with a tenth of it in memory")
            data = generated(directory, options.size)
            seconds["generate"] = time.perf_counter() - began
        with running_service(directory, options.port) as (client, memory):
            session = Session(client, data, (TerminalPicture if sys.stderr.isatty() else Picture)(TOLERANCE))
            session.run()
        compare(session, memory, data)
        show_seconds({**seconds, **session.seconds})
    what_next(Path(sys.argv[0]))
    return 0
