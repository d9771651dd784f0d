"""Requests of Newton steps to the rows, and the replies: sums over the rows, which several machines can add up.

`OwnRows` (own_rows.py) are the rows of one machine. A cluster's coordinator sends a request to each of its machines and
adds up their replies; the steps are the same on one machine and on several.
"""

import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol

from streamsvm.storage.rows.csr import Array
from streamsvm.trainer.newton.system import Kind, System, TooLarge


class Asks(Enum):
    """Meanings of the products of all rows with a vector; m is the argument of the losses at w, v is the w of alpha.

    STEP: the products are the change of m along a step. CHECK: they are its change from w to v. POINT: they are m.
    """

    STEP = "step"
    CHECK = "check"
    POINT = "point"


class NewtonFigures(NamedTuple):
    """Sums over all rows at some m (arguments of the losses) and alpha.

    losses, dual      sum of C_i loss_i, and of the dual terms d_i(alpha_i)
    alpha             sum of alpha_i
    moved             sum of (alpha_i - centre_i)^2 / C_i
    free              number of rows with h_i > 0, those in a system
    M_plus, M_minus   largest and smallest projected gradient
    """

    losses: float
    dual: float
    alpha: float
    moved: float
    free: int
    M_plus: float
    M_minus: float

    def plus(self, other: "NewtonFigures") -> "NewtonFigures":
        """Return the figures of the rows of both machines."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in self._fields[:5]}
        return self._replace(**sums, M_plus=max(self.M_plus, other.M_plus), M_minus=min(self.M_minus, other.M_minus))


class Slope(NamedTuple):
    """Sums over all rows of alpha_i change_i (`first`), and h_i change_i^2; change_i: change of m_i along a step.

    size  sum of (|alpha_i| + h_i |m_i|) |change_i|: bounds the rounding error of `first`, relative to that of a number
    """

    first: float
    second: float
    size: float

    def plus(self, other: "Slope") -> "Slope":
        """Return the slope of the rows of both machines."""
        return Slope(self.first + other.first, self.second + other.second, self.size + other.size)


Looked = tuple[NewtonFigures, ...] | Slope


class LookKind(Enum):
    """Questions about a task that each row answers from its m and the change of m, without a scan.

    BEGIN  replace m by the products; return the figures of the centre, then of the alpha at m
    POINT  replace m by the products; return the figures at m
    SLOPE  return the slope at m + t change
    MOVE   add t change to m; return the figures at the new m
    CHECK  return the figures at m + change with the alpha that belongs to m, then the figures at m
    """

    BEGIN = "begin"
    POINT = "point"
    SLOPE = "slope"
    MOVE = "move"
    CHECK = "check"


class Look(NamedTuple):
    """A question about a task, whose alpha follows from m, the centre and this sigma; t: a step's length (LookKind)."""

    kind: LookKind
    sigma: float
    t: float = 0.0


class SumOf(NamedTuple):
    """An order to add up v, the w of the alpha at this sigma, and a system of this kind, for a task."""

    sigma: float
    kind: Kind


class Product(NamedTuple):
    """An order to multiply all rows by a vector (features,); `asks`: what the products mean."""

    vector: Array
    asks: Asks


@dataclass(frozen=True)
class Request:
    """Orders to the rows, by number of task. They are followed in the order of the fields, each for all its tasks.

    begins    the tasks that are going to be trained: a scan collects the labels of rows
    centres   the alpha at m, with this sigma, becomes the centre
    sums      a scan adds up v and systems
    products  a scan multiplies rows by vectors, which gives the change of m, or m
    looks     questions, which are answered without a scan
    """

    begins: tuple[int, ...] = ()
    centres: Mapping[int, float] = field(default_factory=dict)
    sums: Mapping[int, SumOf] = field(default_factory=dict)
    products: Mapping[int, Product] = field(default_factory=dict)
    looks: Mapping[int, Look] = field(default_factory=dict)

    @property
    def scans(self) -> int:
        """Number of scans that the request takes."""
        return bool(self.begins) + bool(self.sums) + bool(self.products)


@dataclass(frozen=True)
class Reply:
    """The rows' answers to a request.

    v          (features, axis) the w of alpha, a column for each task in `sums`, in order; None: there were no `sums`
    systems    the system of each task in `sums`
    looks      the answer to each question in `looks`
    """

    v: Array | None
    systems: Mapping[int, System]
    looks: Mapping[int, Looked]

    def divided(self, by: float) -> "Reply":
        """Return the reply with all sums divided by a number; the systems change in place."""
        for system in self.systems.values():
            system.scale(1.0 / by)
        looks = {number: _divided(looked, by) for number, looked in self.looks.items()}
        return Reply(None if self.v is None else self.v / by, self.systems, looks)


class ProblemRows(Protocol):
    """All rows of a problem, on one machine or several: they answer requests."""

    def answer(self, request: Request) -> Reply:
        """Follow the orders, and return the reply. Raises Interrupted, TooLarge."""


def unpickled(reply: bytes) -> Reply:
    """Return the reply that another process has pickled; raise TooLarge if it has pickled this error instead."""
    found: Reply | TooLarge = pickle.loads(reply)
    if isinstance(found, TooLarge):
        raise found
    return found


def added(replies: Iterable[Reply]) -> Reply:
    """Return the sum of the replies of all machines, which come in a fixed order. Systems of the first one change."""
    others = iter(replies)
    first = next(others)
    looks = dict(first.looks)
    v = None if first.v is None else first.v.copy()  # arrays from another process may be read-only
    for other in others:
        if v is not None:
            v += other.v
        for number, system in first.systems.items():
            system.merge(other.systems[number])
        looks = {number: _both(looked, other.looks[number]) for number, looked in looks.items()}
    return Reply(v, first.systems, looks)


def _divided(looked: Looked, by: float) -> Looked:
    if isinstance(looked, Slope):
        return Slope(*(total / by for total in looked))
    sums = ("losses", "dual", "alpha", "moved")
    return tuple(each._replace(**{name: getattr(each, name) / by for name in sums}) for each in looked)


def _both(one: Looked, other: Looked) -> Looked:
    if isinstance(one, Slope):
        assert isinstance(other, Slope)
        return one.plus(other)
    assert not isinstance(other, Slope)
    return tuple(each.plus(another) for each, another in zip(one, other, strict=True))
