"""Try eight values of C on generated text, beside LIBLINEAR."""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from streamsvm.service.errors import ServiceError
from streamsvm.service.jobs.fields.from_text import format_size, parse_size
from streamsvm.service.processes.kernels import compile_kernels, missing, show_bar
from streamsvm.storage.rows.csr import Array

VALUES, MEMORY = ("0.01", "0.03", "0.1", "0.3", "1", "3", "10", "30"), "640MiB"
FLIPPED = 0.1  # share of the labels that are flipped
TRAINING, TEST = 0, 1
_SHOWN = 3  # predictions
LIBLINEAR = ("liblinear-train", "train")  # its program, as Debian calls it, and as its makers do
_MOST_COMPARED = 2 << 30  # bytes of text; LIBLINEAR holds about as many
_LOOK_SECONDS = 0.1

_WORDS = 1 << 18
_ROW_WORDS, _ROW_SIGMA = 200.0, 0.6  # words drawn for a row: median, and standard deviation of the logarithm
_LONGEST = 2000
_CLASS_WORDS = slice(50, 30_000)  # ranks of words that may belong to a class: neither stop words nor rare ones
_CLASS_SHARE, _AVOIDANCE = 0.2, 0.6
_CHUNK_ROWS = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `streamsvm demo` to the parser."""
    parser.add_argument(
        "--size", type=parse_size, default="200MB", help="size of the generated text (default: %(default)s)"
    )


def run(options: argparse.Namespace) -> int:
    """Run the demo; return the exit code. All its processes end and its files are removed, even after an error."""
    compile_kernels(show_bar(sys.stderr), missing("one", "several", "libsvm"))
    _say(f"StreamSVM trains on {format_size(options.size)} of generated text with {len(VALUES)} values of C")
    with tempfile.TemporaryDirectory(prefix="streamsvm-demo-") as name:
        directory, corpus = Path(name), Corpus()
        with (directory / "train.svm").open("wb") as file:
            rows, values = write_text(file, corpus, options.size)
        (directory / "test.svm").write_bytes(b"".join(corpus.chunk(TEST, number) for number in range(2)))
        _say(f"{rows:,} rows, {values:,} values; {FLIPPED:.0%} of the labels are flipped at random")
        fields = f"-C {','.join(VALUES)} --validation 0.1 --no-bias --memory {MEMORY} -o demo.npz"
        trained = streamsvm(f"train train.svm {fields}", directory)
        with np.load(directory / "demo.npz") as model:
            certificate = json.loads(str(model["about"]))["certificate"]
        _say("  the certificate of the C that scored best on the tenth of the rows held out, trained on all rows: no")
        _say(
            f"  model's objective is lower than this one's by more than {certificate['relative_duality_gap']:.1e} of it"
        )
        compare(directory, trained, options.size)
        streamsvm("predict demo.npz test.svm -o labels.txt", directory)
        _say("  on rows that it has not seen, such as")
        with (directory / "test.svm").open() as texts, (directory / "labels.txt").open() as labels:
            for text, label, _ in zip(texts, labels, range(_SHOWN), strict=False):
                _say(f"  {text[:40]}...  predicted {float(label):+.0f}")
    _say("\nWhat to do next:")
    _say(f"  {sys.argv[0]} train FILE -C auto -o my.npz    your own LIBSVM text, CSV, Parquet, Arrow or npz")
    _say(f"  {sys.argv[0]} serve                           the service, with its pages on http://localhost:8000")
    return 0


class Ran(NamedTuple):
    """The seconds that a command took, and the most bytes of memory that its processes held together at a time."""

    seconds: float
    peak_bytes: int


def streamsvm(words: str, directory: Path) -> Ran:
    """Print and run a command in a directory, which also takes temporary files. Raises ServiceError demo_failed."""
    _say(f"\n$ streamsvm {words}")
    return _ran([sys.executable, "-m", "streamsvm.service.cli", *words.split()], directory)


def compare(directory: Path, ours: Ran, size: int) -> None:
    """Train with LIBLINEAR's program, once for each C; print seconds and memory beside ours, or why there are none."""
    program = next(filter(shutil.which, LIBLINEAR), None)
    if program is None or size > _MOST_COMPARED:
        why = "its program is not installed" if program is None else f"it would hold some {format_size(size)}"
        _say(f"\nThere is no comparison with LIBLINEAR: {why}.")
        return
    _say(f"\n$ {program} -q -s 3 -c C train.svm liblinear.model    for each C")
    runs = [_ran([program, "-q", "-s", "3", "-c", C, "train.svm", "liblinear.model"], directory) for C in VALUES]
    seconds, peak = sum(each.seconds for each in runs), max(each.peak_bytes for each in runs)
    _say(f"  LIBLINEAR: {seconds:.1f} s, {format_size(peak)} of memory, which grows with the data; it scores no C")
    _say(f"  StreamSVM: {ours.seconds:.1f} s, {format_size(ours.peak_bytes)}, at most {MEMORY} for data of any size")


def _ran(command: Sequence[str], directory: Path) -> Ran:
    """Run a command in a directory, which also takes temporary files. Raises ServiceError demo_failed."""
    began, peak = time.monotonic(), 0
    # In its own session, so that a Ctrl-C reaches the demo only, which then ends the command.
    environment = {**os.environ, "TMPDIR": str(directory)}
    process = subprocess.Popen(command, cwd=directory, env=environment, start_new_session=True)
    try:
        while process.poll() is None:
            peak = max(peak, sum(map(_held_bytes, _tree(process.pid))))
            time.sleep(_LOOK_SECONDS)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait()
    if process.returncode:
        raise ServiceError("demo_failed", f"{' '.join(command)} ended with code {process.returncode}")
    return Ran(time.monotonic() - began, peak)


def _tree(pid: int) -> Iterator[int]:
    """Yield the ids of the process, its children, their children, and so on."""
    yield pid
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _tree(int(child))


def _held_bytes(pid: int) -> int:
    """Return the bytes of a process, counting its part of shared memory (Pss); 0 if the process has ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    return 0


class Corpus:
    """Generates rows like bags of words, the same on every machine for the same seed.

    Word r of V is drawn with probability proportional to 1 / (r + 1) (Zipf). Some words belong to one of the two
    classes, and rows of the other class mostly avoid them. A row is the set of its words, scaled to unit length, so
    that all its values are equal: `bytes.join` writes them fast.
    """

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        rng = np.random.default_rng(seed)
        self.classes = np.zeros(_WORDS, np.int8)  # by rank: the class of a word, +1 or -1, or 0
        drawn = rng.choice((-1, 0, 1), _WORDS, p=(_CLASS_SHARE / 2, 1 - _CLASS_SHARE, _CLASS_SHARE / 2))
        self.classes[_CLASS_WORDS] = drawn[_CLASS_WORDS]
        self.features = rng.permutation(_WORDS).astype(np.int64)  # by rank: the number of a word, less 1
        self._names = [b"%d:" % (feature + 1) for feature in range(_WORDS)]

    def chunk(self, part: int, number: int) -> bytes:
        """Return _CHUNK_ROWS rows as LIBSVM text; each `number` gives other rows, as do the parts TRAINING and TEST."""
        rng = np.random.default_rng((self._seed, part, number))
        classes = rng.choice(np.array((-1, 1), np.int8), _CHUNK_ROWS)
        labels = np.where(rng.random(_CHUNK_ROWS) < FLIPPED, -classes, classes)
        lengths = np.minimum(rng.lognormal(np.log(_ROW_WORDS), _ROW_SIGMA, _CHUNK_ROWS).astype(np.int64) + 1, _LONGEST)
        features, ends = self._draw(rng, classes, lengths)
        lines, begin = [], 0
        for label, end in zip(labels.tolist(), ends.tolist(), strict=True):
            value = b"%.6g" % (end - begin) ** -0.5
            names = map(self._names.__getitem__, features[begin:end])
            lines.append(b"%+d %b%b\n" % (label, (value + b" ").join(names), value))
            begin = end
        return b"".join(lines)

    def _draw(self, rng: np.random.Generator, classes: Array, lengths: Array) -> tuple[list[int], Array]:
        """Draw rows of these classes; return their distinct features, ascending in each row, and each row's end."""
        row = np.repeat(np.arange(len(lengths)), lengths)
        # Word r with probability log((r + 2) / (r + 1)) / log(_WORDS + 1).
        words = np.minimum(np.exp(rng.random(len(row)) * np.log(_WORDS + 1.0)).astype(np.int64) - 1, _WORDS - 1)
        of_other_class = self.classes[words] * classes[row] < 0
        is_used = ~(of_other_class & (rng.random(len(row)) < _AVOIDANCE))
        # Every row has word 0, which belongs to no class, so that no row is empty.
        firsts = np.cumsum(lengths) - lengths
        words[firsts], is_used[firsts] = 0, True
        places = np.sort(row[is_used] * _WORDS + self.features[words[is_used]])
        places = places[np.diff(places, prepend=-1) > 0]  # np.unique takes ten times as long
        return (places % _WORDS).tolist(), np.searchsorted(places, np.arange(1, len(lengths) + 1) * _WORDS)


def write_text(file: IO[bytes], corpus: Corpus, size: int) -> tuple[int, int]:
    """Write at least `size` bytes of rows to train on; return the number of rows and the number of their values."""
    chunks = values = 0
    while file.tell() < size:
        chunk = corpus.chunk(TRAINING, chunks)
        file.write(chunk)
        chunks, values = chunks + 1, values + chunk.count(b":")
    return chunks * _CHUNK_ROWS, values


def _say(line: str) -> None:
    print(line, flush=True)
