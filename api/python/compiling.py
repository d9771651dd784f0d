"""Says that the first training on a machine compiles kernels, which takes a minute once."""

import builtins
import logging
import sys
from functools import cache

from streamsvm.service.processes.kernels import are_compiled, compile_kernels, show_bar

_log = logging.getLogger("streamsvm")


def compile_first(is_verbose: bool) -> None:
    """Compile the kernels if that has not been done yet, with a bar for whoever watches; log it where nobody does.

    A person watches on a terminal, in IPython or a notebook, or with `verbose`. Elsewhere kernels are compiled one by
    one, as training needs them.
    """
    _look(is_verbose or sys.stderr.isatty() or hasattr(builtins, "__IPYTHON__"))


@cache  # to look takes as long as to train on a few rows
def _look(is_watched: bool) -> None:
    if are_compiled():
        return
    if is_watched:
        compile_kernels(show_bar(sys.stderr))
    else:
        _log.info("compiling kernels, once: the first training takes a minute longer")
