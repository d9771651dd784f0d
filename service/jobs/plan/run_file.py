"""Makes the contents of `run.json`: everything that reader and trainer have to know of a plan."""

import json
from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from streamsvm.service.jobs.fields.spec import JobSpec
from streamsvm.service.jobs.plan.memory import kept_bytes
from streamsvm.service.jobs.plan.plan import JobPlan
from streamsvm.storage.blocks.dataset import Dataset, staged_path
from streamsvm.storage.features.maps import LEADING_BIAS
from streamsvm.storage.options import options_of
from streamsvm.storage.rows.csr import Array
from streamsvm.storage.run.state import RUN_FILE
from streamsvm.trainer.solvers import SOLVERS

# Rows are stored in random order, so the first ones are a sample. Small data are looked at as a whole.
_MOST_VALUES = 1 << 24
_ROWS_COMPARED = 400
_SHARES = (0.05, 0.5, 0.95)
_TRAINER_ALONE = {"solver", "pace", "max_seconds", "checkpoint_seconds"}


def run_file(plan: JobPlan, dataset: Path) -> dict[str, Any]:
    """Return the contents of `run.json` for a run on the dataset in this directory, which may still be arriving."""
    distances = distances_of(plan.spec, dataset)
    spec, solver, options, manifest = plan.spec, plan.solver, asdict(plan.spec.options), plan.manifest
    weights, cached = manifest.weights, plan.cache.row_bytes / manifest.decoded_bytes
    shared = {
        "tasks": asdict(plan.tasks),
        "cache": asdict(plan.cache),
        "maps": None,
        "n_rows": plan.n_rows,
        "width": plan.width,
        "seed": spec.seed,
    }
    return {
        "lane": running_lanes(plan),
        "distances": distances,
        "reader": {
            **shared,
            "dataset": str(dataset),
            "staged": str(staged_path(dataset)) if plan.follows else None,
            "has_weights": plan.follows or weights is not None,  # rows that come may have some
            "blocks": plan.partition,
            "kept_bytes": kept_bytes(spec, plan.cache, manifest.longest_row),
            "keeps_all": plan.spills or cached >= 1.0,
            # Threads beyond the number of cores would only hold more data that is read ahead.
            "threads": min(spec.threads or plan.cores, plan.cores),
            **{name: options[name] for name, known in options_of(solver.options).items() if known.for_reader},
            "part_rows": None,
            "exact": spec.pace == "fixed",
            "evicts": solver.evicts,
            "is_dual": solver.is_dual,
            "has_kernel": solver.has_kernel,
        },
        "trainer": {
            **shared,
            "largest_weight": inf if plan.follows else weights.largest_trained if weights else 1.0,
            "cache_rows": 0.0 if plan.follows else cached * plan.n_rows,
            "newton_equations": plan.newton.equations if plan.takes_newton else None,
            "shares_time": len(plan.firsts) > 1,
            **spec.model_dump(include=_TRAINER_ALONE),
            **plan.targets,
            "passes_before": plan.passes_before,
            "follows": plan.follows,
            "spill_directory": str(dataset.parent) if plan.spills else None,
            "stored_rows": {"dataset": str(dataset), "part_rows": None},
            "gamma": distances and distances["gamma"],
            "lane": plan.number,
            "share_of_gap": None,
            "options": options,
            "threads": plan.threads,
        },
    }


def running_lanes(plan: JobPlan) -> dict[str, Any]:
    """Describe the next run's lanes: `number` of the first, `count`, `of` all; class, fold, C, None if they differ.

    seconds_before  seconds that the lanes before them have taken
    """
    views = [lane.view for lane in plan.running]
    same = {name: value if all(view[name] == value for view in views) else None for name, value in views[0].items()}
    counts = {"number": plan.number, "count": len(views), "of": len(plan.lanes)}
    return {**counts, "seconds_before": plan.seconds_before, **same}


def read_lane(directory: Path) -> dict[str, Any]:
    """Read the description of the lanes of the run in this directory, see `running_lanes`."""
    return json.loads((directory / RUN_FILE).read_bytes())["lane"]


def has_leading_bias(directory: Path) -> bool:
    """Return whether the constant feature is the first feature of this run; on a cluster's machines it never is."""
    trainer = json.loads((directory / RUN_FILE).read_bytes()).get("trainer")
    maps = None if trainer is None else trainer["maps"]
    return maps is not None and any(each["name"] == LEADING_BIAS for each in maps["maps"])


class _Sample(NamedTuple):
    """Rows X (n, width) float32, and their weights (n,); weight is None if the dataset has no weights."""

    X: sp.csr_matrix
    weight: Array | None


def distances_of(spec: JobSpec, dataset: Path) -> dict[str, float] | None:
    """Return gamma, and 5% (low), 50% (median), 95% (high) quantiles of rows' squared distances; None: no kernel."""
    if not SOLVERS[spec.solver].has_kernel:
        return None
    own = Dataset(dataset)
    gamma = _scale(own) if isinstance(spec.gamma, str) else spec.gamma
    rows = _sample(own, _MOST_VALUES, _ROWS_COMPARED).X.astype(np.float64)
    inner = (rows @ rows.T).toarray()
    norms = inner.diagonal()
    upper = np.triu_indices(len(norms), 1)
    found = np.maximum(norms[:, None] + norms - 2.0 * inner, 0.0)[upper]
    low, median, high = np.quantile(found, _SHARES).tolist() if len(found) else (0.0, 0.0, 0.0)
    return {"gamma": gamma, "low": low, "median": median, "high": high}


def _scale(dataset: Dataset) -> float:
    """Return scikit-learn's gamma "scale", 1 / (features x variance of all values), from a sample if rows are many.

    A row of weight k counts as k rows.
    """
    X, weight = _sample(dataset, _MOST_VALUES)
    n_features = dataset.manifest.n_features
    n_values = max(1, (X.shape[0] if weight is None else float(weight.sum())) * n_features)
    values = X.data.astype(np.float64)
    weighed = values if weight is None else np.repeat(weight, np.diff(X.indptr)) * values
    variance = float(values @ weighed) / n_values - (float(weighed.sum()) / n_values) ** 2
    return 1.0 / (n_features * variance) if variance > 0.0 else 1.0


def _sample(dataset: Dataset, most_values: int, most_rows: int | None = None) -> _Sample:
    """Read the first stored rows, piece by piece, until they have `most_values` values or are `most_rows` rows."""
    parts: list[Any] = []
    weights: list[Array] = []
    n_values = n_rows = 0
    for location in dataset.all_pieces():
        rows = dataset.piece(location).rows
        indptr: Array = rows.indptr
        parts.append(sp.csr_matrix((rows.values, rows.indices, indptr), (len(rows), dataset.manifest.width)))
        weights.append(np.ones(len(rows)) if rows.weight is None else rows.weight)
        n_values, n_rows = n_values + rows.nnz, n_rows + len(rows)
        if n_values >= most_values or (most_rows is not None and n_rows >= most_rows):
            break
    weight = None if dataset.manifest.weights is None else np.concatenate(weights)[:most_rows]
    return _Sample(sp.vstack(parts, "csr")[:most_rows], weight)
