"""Figures of all machines, made of what each reports of its rows. They are (lanes,)."""

from collections.abc import Mapping

import numpy as np

from streamsvm.service.cluster.rounds.convergence import dots
from streamsvm.service.cluster.rounds.machines import Certificate
from streamsvm.service.cluster.rounds.messages import Found
from streamsvm.storage.rows.csr import Array


def total(come: Mapping[int, Found], name: str, lanes: int) -> Array:
    """The sum of a figure over these reports."""
    return np.sum([getattr(found, name) for found in come.values()], axis=0) if come else np.zeros(lanes)


def extremes(come: Mapping[int, Found]) -> tuple[Array, Array]:
    """M+ and M-, each (lanes,), over the rows of these machines."""
    M_plus = np.max([found.M_plus for found in come.values()], axis=0)
    return M_plus, np.min([found.M_minus for found in come.values()], axis=0)


def certificate_at(w: Array, come: Mapping[int, Found], machines: int) -> Certificate | None:
    """Make the certificate at w (features, axis) from the reports of all machines on a LOOK; None: some are missing."""
    if len(come) < machines or any(found.losses is None for found in come.values()):
        return None
    v = np.zeros_like(w)
    for found in come.values():
        assert found.own_w is not None
        v += found.own_w
    lanes = len(next(iter(come.values())).dual)
    w, v = w[:, :lanes], v[:, :lanes]
    P = dots(w, w) / 2.0 + total(come, "losses", lanes)
    D = total(come, "dual", lanes) - dots(v, v) / 2.0
    w_error = np.sqrt(dots(w - v, w - v)) / np.maximum(np.sqrt(dots(w, w)), 1e-300)
    return Certificate(P, D, *extremes(come), w_error)
