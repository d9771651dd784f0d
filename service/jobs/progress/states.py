"""The states a job goes through, and the phases of a running one."""

from streamsvm.service.errors import ServiceError

# state -> states that may follow. Those with none are terminal.
TRANSITIONS = {
    "queued": ("running", "cancelled"),
    "running": ("queued", "succeeded", "stopped", "failed", "cancelled"),
    "succeeded": (),
    "stopped": (),
    "failed": (),
    "cancelled": (),
}

# What a running job does. Kernels are compiled when one is used for the first time on a machine.
PHASES = ("starting", "compiling", "training", "certifying", "exporting")

# A user's request to end a job -> the state that the job ends in.
REQUESTS = {"stop": "stopped", "cancel": "cancelled"}


def check_transition(old: str, new: str) -> None:
    """Raises ServiceError if a job in state `old` cannot go to `new`."""
    if new not in TRANSITIONS[old]:
        raise ServiceError("not_possible", f"a job that is {old} cannot become {new}")
