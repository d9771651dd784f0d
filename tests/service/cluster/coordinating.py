"""Jobs on machines that are threads, from their fields to their end."""

import pickle
from dataclasses import replace

import numpy as np

from streamsvm.service.cluster.dataset.shards import deal
from streamsvm.service.cluster.machine.shard_run import Begin
from streamsvm.service.cluster.process import pool_for
from streamsvm.service.cluster.rounds.convergence import RoundConvergence
from streamsvm.service.cluster.rounds.coordinator import Coordinator
from streamsvm.service.cluster.rounds.newton import Newton
from streamsvm.service.jobs.fields.features import fitted_maps
from streamsvm.service.jobs.fields.spec import parse_spec
from streamsvm.service.jobs.plan.plan import plan_job
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.blocks.manifest import read_manifest
from streamsvm.storage.rows.row_runs import all_ids
from tests.service.cluster.threads import ThreadMachines


class Seen(list):
    """D, P, the step, and how many rows were pooled, of each round; and the Newton steps."""

    def __init__(self):
        super().__init__()
        self.steps = []

    def __call__(self, now):
        self.append((now.convergence.D.copy(), now.convergence.P.copy(), now.step.copy(), now.pooled_rows))


class Around:
    """Machines as others have them, but for what a subclass does in their place."""

    def __init__(self, machines):
        self._machines = machines

    def __getattr__(self, name):
        return getattr(self._machines, name)

    def __len__(self):
        return len(self._machines)


def coordinate(
    dataset,
    root,
    machines,
    wrap=lambda machines: machines,
    pools=True,
    steps=True,
    pool_bytes=None,
    after=lambda *_: None,
    at_once=None,
    attend=lambda *_: None,
    is_stopping=lambda: False,
    alpha=None,
    model=None,
    before=(0, 0.0),
    **fields,
):
    """The coordinator of a job that has ended, what was seen of its rounds, its plan.

    after(machines, plan, coordinator)  is called while the machines are still there
    alpha (n_rows, axis), model  where machines and coordinator begin; None: at 0
    before                       rounds and seconds of an earlier attempt
    """
    spec = parse_spec(
        {"dataset": "any", "bias": None, "relative_gap": 1e-5, "tolerance": None, "machines": machines, **fields}
    )
    manifest = read_manifest(dataset)
    plan = plan_job(spec, manifest)
    plan = replace(plan, at_once=at_once or plan.at_once)
    shards = deal(manifest, machines)
    maps = fitted_maps(plan.maps, Dataset(dataset))
    own = spec, 0, plan.at_once, machines, maps
    begins = [Begin("job", each.name, *own, each.rows) for each in shards]
    if alpha is not None:
        begins = [replace(begin, alpha=alpha[all_ids(begin.rows)]) for begin in begins]
    begins = pickle.loads(pickle.dumps(begins))  # as they come to machines
    seen = Seen()
    convergence = RoundConvergence(spec, len(plan.running), is_stopping, *before)
    pool = pool_for(plan, dataset, maps, root) if pools else None
    if pool_bytes:
        pool.most_bytes = pool_bytes
    newton = Newton(plan, convergence, machines, seen.steps.append) if steps and spec.combine != "average" else None
    with ThreadMachines([root / f"node{k}" for k in range(machines)], dataset, shards, begins) as threads:
        coordinator = Coordinator(wrap(threads), plan, convergence, seen, attend, pool, newton, model)
        coordinator.run()
        after(threads, plan, coordinator)
    return coordinator, seen, plan


def input_w(dataset, w, n_features=None):
    """w (features,) in the order of the input; with the number of its features, a constant feature is the last."""
    own = Dataset(dataset)
    of_input = own.in_input_order(w[:n_features].copy())[own.manifest.index_base :]
    return of_input if n_features is None else np.append(of_input, w[n_features:])
