"""The solvers, by the name a job asks for. A solver is a generator: one `Progress` a pass, closed to stop it."""

from trainer.solvers.streamsvm import streamsvm

SOLVERS = {
    "streamsvm": streamsvm,
}
