"""What the trainer shows of itself while it works, and leaves when it has ended."""

import json

from reader.process import Reader
from storage.state import RUN_FILE, open_control
from tests.contracts.problems import make_dataset, random_problem
from tests.contracts.solver import SMALLEST_CACHE
from tests.training import write_run
from trainer.process import Trainer


def test_sweeps_are_those_of_the_last_pass_until_the_next_begins(tmp_path):
    dataset = make_dataset(tmp_path / "data", *random_problem(1500))
    run = tmp_path / "run"
    write_run(run, dataset, SMALLEST_CACHE, tolerance=None)
    # Reader and trainer take turns here, which asks for pace "fixed"; that alone has no rows on disk.
    settings = json.loads((run / RUN_FILE).read_text())
    settings["trainer"]["spill"] = str(tmp_path)
    (run / RUN_FILE).write_text(json.dumps(settings))
    reader, control = Reader(run), open_control(run)
    while reader.step():
        pass
    streaming, certifying = [], []

    def wait(_began: float) -> None:
        is_certifying = control["certificates_made"] < control["certificates_wanted"]
        (certifying if is_certifying else streaming).append(control["sweeps"])
        reader.step()

    cache = reader.cache_reader()
    trainer = Trainer(run, cache, wait=wait)
    for _ in range(2):
        trainer.step()
    trainer.shutdown()
    cache.close()
    reader.shutdown()
    assert set(streaming) == {0}
    assert set(certifying) == {control["sweeps"]} != {0}
