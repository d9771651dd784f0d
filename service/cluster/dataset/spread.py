"""Has the machines of a Ray cluster read a source in, a shard each, and makes the dataset DIRECTORY.

    python -m streamsvm.service.cluster.dataset.spread DIRECTORY [OPTIONS] --source URL ... --machines N --ray ADDRESS
    python -m streamsvm.service.cluster.dataset.spread DIRECTORY --drop --ray ADDRESS

Blocks stay on the machines; DIRECTORY describes them. Prints what `reader.ingest.run` prints. With --drop the machines
remove their shards of a dataset.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.renumber import Numbering
from streamsvm.reader.ingest.run import add_reading_options, limits_of
from streamsvm.reader.ingest.shared_schema import agreed_schema, merged_manifest, schema_of_first_rows
from streamsvm.reader.options import input_options
from streamsvm.reader.sources.files import list_files
from streamsvm.service.cluster.dataset.shards import Origin, shard_manifest, shard_names, stripe_bytes_for, write_origin
from streamsvm.service.cluster.machine.shard_run import ReadIn
from streamsvm.service.cluster.nodes.connecting import connect, nodes_of
from streamsvm.service.cluster.nodes.ray_machines import CALL_SECONDS, agent_on, agents_of, placed, told
from streamsvm.service.errors import ServiceError, needing_space
from streamsvm.storage.blocks.dataset import IngestProgress, publish_dataset, staged_path
from streamsvm.storage.blocks.feature_files import FeatureWords, write_listed, write_places, write_words
from streamsvm.storage.blocks.manifest import Manifest, Profile, read_manifest, write_profile
from streamsvm.storage.features.rows import MOST_FEATURES, FeatureStatistics, far_scales, write_statistics
from streamsvm.storage.machine.child import die_with_parent, leave
from streamsvm.storage.machine.resources import usable_cores

_POLL_SECONDS = 0.2
_MOST_FAILURES = 5  # of a machine


def spread(directory: Path, given: argparse.Namespace) -> Manifest:
    """Have a cluster's nodes read a source in, a shard each; return the manifest. Raises InputError, ServiceError."""
    options, limits = input_options(given), limits_of(given)
    ray = connect(given.ray)
    count = len(nodes_of(ray)) if given.machines == "all" else int(given.machines)
    files = tuple(list_files(given.source))
    staged = staged_path(directory)
    staged.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        settled = schema_of_first_rows(files, options, limits, usable_cores(), Path(scratch))
    origin = Origin(files, options, limits, max(count, 1), stripe_bytes_for(files, max(count, 1)), settled)
    progress = IngestProgress(staged)
    with _ReadingIn(ray, origin, progress) as reading_in:
        manifest, shards = reading_in.run()
        limits.check_width(manifest.width)  # a part alone may have fewer features
        progress.remove()
        _write(staged, reading_in.origin, manifest, shards)
        # Published before the machines keep the shards: from now on the directory says where they are.
        publish_dataset(staged, directory, manifest)
        reading_in.settle(manifest)
    return manifest


def drop(directory: Path, address: str) -> None:
    """Have the machines remove their shards of a dataset; `directory` gets a file for each shard that was found.

    Raises ServiceError, machine_lost if a shard was on no node that is alive.
    """
    manifest = read_manifest(directory)
    ray = connect(address)
    agents, shards = agents_of(ray, 1)
    names = shard_names(manifest.uid, len(manifest.parts))
    for node, agent in agents.items():
        for name in set(names).intersection(shards[node]):
            # The file is made first: after a kill in between, the next call does not look for a shard that is gone.
            (directory / name).touch()
            try:
                ray.get(agent.drop.remote(name), timeout=CALL_SECONDS)
            except BaseException:
                (directory / name).unlink()
                raise
        ray.kill(agent)
    if missing := [name for name in names if not (directory / name).exists()]:
        raise ServiceError("machine_lost", f"{len(missing)} parts are on no node that is there", "Start the nodes.")


def _write(staged: Path, origin: Origin, manifest: Manifest, shards: Sequence[ReadIn]) -> None:
    """Write the files beside the blocks of a dataset, from those of all shards."""
    features = origin.settled.features or Numbering()
    if features.places is not None:
        write_places(staged, features.places)
    if manifest.listed:
        write_listed(staged, features.listed)
    known = [shard.statistics for shard in shards if shard.statistics is not None]
    statistics = reduce(FeatureStatistics.plus, known) if len(known) == len(shards) else None
    if statistics is not None:
        write_statistics(staged, statistics.of_width(min(manifest.width, MOST_FEATURES)))
    if words := [shard.words for shard in shards if shard.words is not None]:
        write_words(staged, reduce(_with_words, words))
    lengths = zip_longest(*(shard.profile.lengths for shard in shards if shard.profile is not None), fillvalue=0)
    scales = () if statistics is None else far_scales(statistics)
    # The profile lists no longest rows: each shard counts its rows from 0, so that their numbers are no ids here.
    told = origin.settled.warnings
    profile = Profile(
        manifest.n_rows, tuple(map(sum, lengths)), (), features.frequent, features.counted_rows, scales, told
    )
    write_profile(staged, profile)
    write_origin(staged, origin)


def _with_words(first: FeatureWords, second: FeatureWords) -> FeatureWords:
    """Return the words of `first`, and those of features that only `second` has."""
    new = np.flatnonzero(~np.isin(second.features, first.features))
    features = np.concatenate((first.features, second.features[new]))
    order = np.argsort(features)
    words = first.words + [second.words[k] for k in new.tolist()]
    signs = np.concatenate((first.signs, second.signs[new]))
    return FeatureWords(features[order], signs[order], [words[k] for k in order.tolist()])


def main(*arguments: str) -> int:
    """Run the command; return its exit code."""
    die_with_parent()
    # Ray's output goes into the log.
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    parser = argparse.ArgumentParser(prog="python -m streamsvm.service.cluster.dataset.spread", description=__doc__)
    parser.add_argument("--machines", default="all", metavar="N", help="how many, or all")
    parser.add_argument("--ray", required=True, metavar="ADDRESS", help="of the cluster: HOST:PORT, or auto")
    parser.add_argument("--drop", action="store_true")
    add_reading_options(parser)
    given = parser.parse_args(arguments)
    answer: dict[str, Any]
    try:
        if given.drop:
            drop(given.directory, given.ray)
            return 0
        with needing_space():
            manifest = spread(given.directory, given)
        answer = {"rows": manifest.n_rows, "uid": manifest.uid}
    except (InputError, ServiceError) as error:
        answer = {"problem": error.problem()}
    print(json.dumps(answer), file=output, flush=True)
    return int("problem" in answer)


class _ReadingIn:
    """Has machines read a source in: `run`, then `settle`. Leaving the context ends agents and drops unsettled shards.

    progress  receives the progress of all machines several times a second
    Raises ServiceError: machines_range, node_version, machine_lost, and the codes of faults in the data.
    """

    def __init__(self, ray: Any, origin: Origin, progress: IngestProgress) -> None:
        self._ray, self.origin, self._progress = ray, origin, progress
        self._failures: Counter[int] = Counter()
        self._read_so_far: dict[int, dict[str, int]] = {}
        self._is_complete = False
        agents, shards = agents_of(ray, origin.machines)
        self._nodes = placed(origin.names, shards)
        self._agents = {number: agents.pop(node) for number, node in enumerate(self._nodes)}
        for agent in agents.values():
            ray.kill(agent)

    def __enter__(self) -> "_ReadingIn":
        return self

    def __exit__(self, *_: object) -> None:
        for number, agent in self._agents.items():
            try:
                if not self._is_complete:
                    self._ray.get(agent.drop.remote(self.origin.names[number]), timeout=CALL_SECONDS)
                self._ray.kill(agent)
            except Exception:
                continue

    def run(self) -> tuple[Manifest, list[ReadIn]]:
        """Have the machines read; return the manifest of the whole dataset, and each shard as it was read in."""
        found: dict[int, ReadIn] = {}
        missing = list(range(self.origin.machines))
        while missing:
            found |= self._read(missing)
            shards = [found[k] for k in sorted(found)]
            settled, missing = agreed_schema(
                self.origin.settled, [shard.manifest for shard in shards], [shard.listed for shard in shards]
            )
            self.origin = replace(self.origin, settled=settled)
        manifests = [shard.manifest for shard in shards]
        manifest = merged_manifest(self.origin.settled, manifests, self.origin.options.n_features)
        return replace(manifest, parts=tuple(len(each.blocks) for each in manifests)), shards

    def settle(self, manifest: Manifest) -> None:
        """Have the machines keep their shards as shards of the dataset with this manifest."""
        for number, agent in self._agents.items():
            shard = shard_manifest(manifest, number)
            self._ray.get(agent.settle.remote(self.origin.names[number], shard), timeout=CALL_SECONDS)
        self._is_complete = True

    def _read(self, missing: Sequence[int]) -> dict[int, ReadIn]:
        origin = self._ray.put(self.origin)
        for number in missing:
            self._begin(number, origin)
        found: dict[int, ReadIn] = {}
        while len(found) < len(missing):
            time.sleep(_POLL_SECONDS)
            states = {number: self._state(number, origin) for number in missing if number not in found}
            found |= {k: state for k, state in states.items() if isinstance(state, ReadIn)}
            self._read_so_far |= {k: state for k, state in states.items() if not isinstance(state, ReadIn)}
            known, total = self._read_so_far.values(), sum(file.size for file in self.origin.files)
            done = {name: sum(each.get(name, 0) for each in known) for name in ("read_bytes", "rows", "non_zeros")}
            self._progress.note(**done, total_bytes=total)
        return found

    def _begin(self, number: int, origin: Any) -> None:
        self._agents[number].read_in.remote(self.origin.names[number], origin, number)

    def _state(self, number: int, origin: Any) -> dict[str, Any] | ReadIn:
        try:
            return self._ray.get(self._agents[number].reading.remote(), timeout=CALL_SECONDS)
        except Exception as error:
            cause = getattr(error, "cause", None) or error
            if isinstance(cause, ServiceError):
                raise _of_machine(number, self.origin, cause) from error
            self._failures[number] += 1
            if self._failures[number] > _MOST_FAILURES:
                raise told(number, error) from error
            self._begin_anew(number, origin)
            return {}

    def _begin_anew(self, number: int, origin: Any) -> None:
        """Have another agent read a shard in again, on the node with the fewest shards."""
        self._ray.kill(self._agents[number])
        nodes = nodes_of(self._ray)
        if not nodes:
            raise ServiceError("machine_lost", "no node is left", "Start nodes, and read the data in again.")
        used = Counter(node for k, node in enumerate(self._nodes) if k != number)
        self._nodes[number] = min(nodes, key=lambda node: (used[node], node))
        self._agents[number] = agent_on(self._ray, self._nodes[number])
        self._begin(number, origin)


def _of_machine(number: int, origin: Origin, cause: ServiceError) -> ServiceError:
    if cause.code == "no_rows" and origin.machines > 1:
        return ServiceError(
            "machines_range",
            f"nothing is left for machine {number}: compressed files and strings are not cut",
            "Ask for fewer machines, or give more files.",
        )
    if cause.at:
        return cause  # it names the file
    return told(number, cause)


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    if code:
        sys.exit(code)
    leave()  # Ray takes its time
