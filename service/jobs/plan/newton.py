"""Plans the memory of a job's Newton steps: sweeps go on alone where there is no room for them."""

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


def takes_newton(spec: JobSpec) -> bool:
    """Whether the job may take Newton steps if they are quicker, see trainer.newton.phase."""
    return spec.solver == "streamsvm" and spec.pace == "adaptive" and not spec.is_joint and spec.machines is None


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
