"""The figures of a certificate: all rows at one w."""

from streamsvm.trainer.problem.objective import relative_gap


def certificate_of(primal: float, dual: float, M_plus: float, M_minus: float, w_error: float) -> dict[str, float]:
    """A certificate of all rows at one w, as a task's result has it."""
    return {
        "m_plus": M_plus,
        "m_minus": M_minus,
        "gap": M_plus - M_minus,
        "primal_objective": primal,
        "dual_objective": dual,
        "relative_duality_gap": relative_gap(primal, dual),
        "w_error": w_error,
    }
