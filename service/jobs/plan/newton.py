"""Plans a job's Newton steps: why it may take none, and their memory. Sweeps go on alone where there is no room."""

from collections.abc import Callable
from typing import NamedTuple

from streamsvm.service.jobs.fields.features import extra_values, planned_maps
from streamsvm.service.jobs.fields.spec import JobSpec
from streamsvm.storage.blocks.manifest import Manifest
from streamsvm.trainer.newton.memory import Shape, bytes_held, equations_within
from streamsvm.trainer.newton.system import LARGEST
from streamsvm.trainer.problem.losses import REGRESSION

_PART_FOR_SYSTEMS = 2  # of the room there is: few jobs come to have a system as large as there could be


class NewtonRoom(NamedTuple):
    """Equations that a system of Newton steps may have, and the bytes that the steps hold then at most."""

    equations: int
    n_bytes: int


ANY_ROOM, NO_ROOM = NewtonRoom(LARGEST, 0), NewtonRoom(0, 0)


# Why a job takes no Newton steps: those of its fields first, by a rule each, then those of its plan.
RULED_OUT = {
    "solver": "only the solver streamsvm takes Newton steps",
    "pace": 'a job of pace "fixed" makes exactly the updates that are due',
    "multiclass": "the classes of a row depend on each other where all are one problem",
    "machines": "each of several machines trains alone if their results are averaged",
    "no_target": "without tolerance and relative_gap there is no end to be near to",
    "rows_not_at_hand": "neither the cache nor the disk holds all rows: each scan would read and decode all blocks",
    "no_room": "memory_bytes, or the machine, has no room for what they hold",
}
_RULES: dict[str, Callable[[JobSpec], bool]] = {
    "solver": lambda spec: spec.solver != "streamsvm",
    "pace": lambda spec: spec.pace != "adaptive",
    "multiclass": lambda spec: spec.is_joint,
    "machines": lambda spec: spec.machines is not None and spec.combine == "average",
    "no_target": lambda spec: spec.tolerance is None and spec.relative_gap is None,
}


def ruled_out_by(spec: JobSpec) -> str | None:
    """The code of the first of RULED_OUT that the job's fields give; None: it may take Newton steps."""
    return next((code for code, is_broken in _RULES.items() if is_broken(spec)), None)


def takes_newton(spec: JobSpec) -> bool:
    """Whether the job may take Newton steps if they are quicker.

    See trainer.newton.phase and, on several machines, service.cluster.rounds.newton.
    """
    return ruled_out_by(spec) is None


def newton_room(spec: JobSpec, manifest: Manifest, threads: int, lanes: int, room: int) -> NewtonRoom:
    """The equations and bytes that Newton steps may have within `room` bytes, for so many lanes side by side."""
    if not takes_newton(spec):
        return NO_ROOM
    shape = _shape(spec, manifest, threads, lanes)
    least = bytes_held(shape, 1)
    most = equations_within(least + (room - least) // _PART_FOR_SYSTEMS, shape) if room > least else 0
    return NewtonRoom(most, bytes_held(shape, min(most, shape.most_equations))) if most else NO_ROOM


def _shape(spec: JobSpec, manifest: Manifest, threads: int, lanes: int) -> Shape:
    maps = planned_maps(spec, manifest)
    columns = (spec.loss in REGRESSION) + (manifest.weights is not None)
    mean = manifest.nnz / max(1, manifest.n_rows) + extra_values(spec)
    values = maps.width if len(maps.late) else mean
    return Shape(manifest.n_rows, maps.width, lanes, columns, values, threads)
