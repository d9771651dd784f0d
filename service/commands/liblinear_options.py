"""LIBLINEAR's short options: -s 3 -c 1 -e 0.1 -p 0.1 -B 1 -w1 10."""

import argparse
from typing import Any

from streamsvm.trainer.problem.problem import LOSSES

# -s: the losses of its L2-regularised linear models of classes and of regression, whatever the algorithm.
_LOSS = {
    "0": "logistic",
    "1": "squared_hinge",
    "2": "squared_hinge",
    "3": "hinge",
    "4": "hinge",
    "7": "logistic",
    "11": "squared_epsilon_insensitive",
    "12": "squared_epsilon_insensitive",
    "13": "epsilon_insensitive",
}
_JOINT = "4"  # all classes in one problem, Crammer and Singer's
# The solver of what the default one cannot minimise: LIBLINEAR's own of -s 7, 12 and 13.
_SOLVER = "dcd"


def add_liblinear_options(parser: argparse.ArgumentParser) -> None:
    """-s, -v and -B; -c, -e and -p are other names of options that are there, -w is spelled out before."""
    known = ", ".join(_LOSS)
    parser.add_argument("-s", dest="loss", action=_Solver, metavar="SOLVER", help=f"the loss, as in LIBLINEAR: {known}")
    parser.add_argument("-v", dest="folds", action=_Folds, type=int, metavar="N", help="--folds N --no-refit")
    parser.add_argument("-B", dest="bias", action=_Bias, type=float, help="--bias; none if it is negative")


class _Folds(argparse.Action):
    """Cross-validation, and no model, as in LIBLINEAR."""

    def __call__(self, _parser: argparse.ArgumentParser, options: Any, value: Any, _: Any = None) -> None:
        options.folds, options.refit = value, False


class _Solver(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, options: Any, value: Any, _: Any = None) -> None:
        if value not in _LOSS:
            parser.error(f"-s {value} is not trained here; {', '.join(_LOSS)} are")
        options.loss = _LOSS[value]
        options.multiclass = "crammer_singer" if value == _JOINT else options.multiclass
        if options.loss not in LOSSES and options.solver is None:
            options.solver = _SOLVER


class _Bias(argparse.Action):
    def __call__(self, _parser: argparse.ArgumentParser, options: Any, value: Any, _: Any = None) -> None:
        options.bias = value if value >= 0 else None
