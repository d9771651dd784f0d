"""The layers hold: who imports whom, which library lives where, and that what is installed is this tree."""

import ast
import importlib
import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from streamsvm.storage.machine.compiling import kernel_modules
from streamsvm.trainer.problem.losses import LOSSES

ROOT = Path(__file__).resolve().parents[1]
LAYERS = {
    "examples": {"streamsvm"},
    "api": {"service", "reader", "trainer", "problem", "storage"},
    "streamsvm": {"service", "reader", "storage"},
    "service": {"reader", "trainer", "problem", "storage"},
    "reader": {"problem", "storage"},
    "trainer": {"problem", "storage"},
    "problem": {"storage"},
    "storage": set(),
}
# The interface for Python lives inside another layer, under a name of its own. So do its examples, no package.
# The mathematics live inside the trainer: the reader's certificate takes them from there, and nothing else.
PLACES = {
    "examples": Path("api/python/examples"),
    "streamsvm": Path("api/python"),
    "problem": Path("trainer/problem"),
}
FOLDERS = {PLACES.get(layer, Path(layer)) for layer in LAYERS}
MODULES = sorted({path.relative_to(ROOT) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")})
MOST_LINES, MOST_MODULES = 400, 16  # of a module, of a folder
SOURCES = ("*.py", "*.sh", "*.js", "*.css", "*.html", "answers.txt")
# What there may be at most: a commit lowers these figures or leaves them, and whoever adds makes room first.
BUDGET = {
    "product lines": 64_026,
    "product statements": 35_025,
    "product modules": 337,
    "test lines": 62_559,
}


@cache
def nodes_of(module: Path) -> list[ast.AST]:
    """All of its syntax tree."""
    return [*ast.walk(ast.parse((ROOT / module).read_text()))]


@cache
def imported(module: Path) -> set[str]:
    """Names of everything a module imports, at its top or inside a function."""
    names = set()
    for node in nodes_of(module):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            names.add(node.module)
    return names


def layer_of(module: Path) -> str:
    return next((layer for layer, place in PLACES.items() if module.is_relative_to(place)), module.parts[0])


def package_of(module: Path) -> str:
    """The name by which a module's folder is imported."""
    place = PLACES["streamsvm"]
    rooms = module.parent.relative_to(place) if module.is_relative_to(place) else module.parent
    return ".".join(("streamsvm", *rooms.parts))


def name_of(module: Path) -> str:
    return package_of(module) if module.name == "__init__.py" else f"{package_of(module)}.{module.stem}"


def layer_named(name: str) -> str:
    """The layer, or the other library, that an import names."""
    package, *below = name.split(".")
    if package != "streamsvm" or not below or below[0] not in LAYERS:
        return package
    return "problem" if below[:2] == ["trainer", "problem"] else below[0]


def packages(module: Path) -> set[str]:
    return {layer_named(name) for name in imported(module)}


def every_module(faults_of: Callable[[Path], Iterable[str]]) -> list[str]:
    """What a rule has against each module, a line each."""
    return [f"{module}: {fault}" for module in MODULES for fault in faults_of(module)]


def test_imports_point_down():
    def faults_of(module):
        layer = layer_of(module)
        for name in {name.split(".")[0] for name in imported(module)} & (LAYERS.keys() - {"streamsvm"}):
            yield f"import of {name} lacks `streamsvm.`"
        for name in packages(module) & (LAYERS.keys() | {"tests"}) - (LAYERS[layer] | {layer}):
            yield f"{layer} imports {name}"

    assert not every_module(faults_of)


def test_no_module_imports_itself_by_way_of_others():
    names, graph = {name_of(module) for module in MODULES}, {}
    for module in MODULES:
        found = (n for n in nodes_of(module) if isinstance(n, ast.ImportFrom))
        named = ({f"{n.module}.{alias.name}" for alias in n.names} & names or {n.module} for n in found)
        graph[name_of(module)] = set().union(*named)
    TopologicalSorter(graph).prepare()  # CycleError names a circle


def test_a_class_name_stands_for_one_thing():
    nodes = (node for module in MODULES for node in nodes_of(module))
    names = Counter(node.name.lstrip("_") for node in nodes if isinstance(node, ast.ClassDef))
    assert sorted(name for name, count in names.items() if count > 1) == ["Arrivals", "Client"]


def test_nobody_compares_the_name_of_a_loss():
    """But who may not import the losses: the estimators' parameter, and what a model file says."""

    def faults_of(module):
        compared = (n for n in nodes_of(module) if isinstance(n, ast.Compare))
        words = {getattr(n, "value", None) for each in compared for n in ast.walk(each)}
        if layer_of(module) not in ("streamsvm", "storage"):
            yield from words & set(LOSSES)

    assert not every_module(faults_of)


def test_libraries_live_where_they_belong():
    def faults_of(module):
        found, layer = packages(module), layer_of(module)
        is_kernel = (
            module == Path("storage/machine/compiled.py")
            or module.name.endswith("_kernel.py")
            or module.is_relative_to("trainer/kernels")
        )
        if layer != "api":
            yield from found & {"fastapi", "starlette", "uvicorn"}
        if layer not in ("streamsvm", "examples"):
            yield from found & {"sklearn", "tqdm", "pandas", "polars"}
        if layer != "storage":
            yield from found & {"lmdb", "zstandard"}
        if module.parent != Path("reader/sources"):
            yield from found & {"fsspec", "s3fs", "gcsfs", "adlfs", "botocore", "aiobotocore"}
        if not is_kernel:
            yield from found & {"numba", "llvmlite"}

    assert not every_module(faults_of)


def test_kernels_are_kept_by_all_of_their_sources():
    looked_at = kernel_modules(ROOT)

    def faults_of(module):
        text = (ROOT / module).read_text()
        if module != Path("storage/machine/compiled.py"):
            yield from re.findall(r"^from numba import .*\bn?jit\b|numba\.n?jit\b", text, re.MULTILINE)
        if re.search("^@njit", text, re.MULTILINE) and ROOT / module not in looked_at:
            yield "has kernels, and is not looked at"

    assert not every_module(faults_of)


def test_modules_are_short():
    lengths = {module: len((ROOT / module).read_text().splitlines()) for module in MODULES}
    assert not {str(module): lines for module, lines in lengths.items() if lines > MOST_LINES}


def test_folders_are_small():
    counts = Counter(str(module.parent) for module in MODULES if not module.name.startswith("__"))
    assert not {folder: count for folder, count in counts.items() if count > MOST_MODULES}


def statements_of(module: Path) -> int:
    """Statements of a module; docstrings count as none, so that leaving them out saves nothing."""
    nodes = nodes_of(module)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = sum(isinstance(node, documented) and ast.get_docstring(node) is not None for node in nodes)
    return sum(isinstance(node, ast.stmt) for node in nodes) - docstrings


def lines_below(folders: Iterable[Path]) -> int:
    """Lines of all source files: Python, scripts, styles, pages, and the text that describes answers."""
    paths = {path for folder in folders for kind in SOURCES for path in (ROOT / folder).rglob(kind)}
    return sum(path.read_bytes().count(b"\n") for path in paths)


def test_the_house_does_not_grow():
    """Each bound is at most a hundredth above what is counted: who removes more lowers it, and none goes stale."""
    counted = {
        "product lines": lines_below({*FOLDERS, Path("deploy"), Path(".ci")}),
        "product statements": sum(map(statements_of, MODULES)),
        "product modules": sum(module.name != "__init__.py" for module in MODULES),
        "test lines": lines_below([Path("tests")]),
    }
    wrong = {what: n for what, n in counted.items() if not n <= BUDGET[what] <= n * 1.01}
    assert not wrong, f"counted: {counted}"


def test_there_is_something_to_look_at():
    assert {layer_of(module) for module in MODULES} == LAYERS.keys()
    assert "sklearn" in packages(Path("api/python/base.py"))
    assert "lmdb" in packages(Path("storage/rows/cache.py"))
    assert "numba" in packages(Path("storage/machine/compiled.py"))
    assert "fsspec" in packages(Path("reader/sources/files.py"))


def test_packages_are_of_this_tree():
    for name in sorted({package_of(module) for module in MODULES if layer_of(module) != "examples"}):
        package = importlib.import_module(name)
        _, *rooms = name.split(".")
        assert Path(package.__file__) == ROOT.joinpath(*(rooms or PLACES["streamsvm"].parts), "__init__.py")
