"""What the trainer shows of itself while it works, and leaves when it has ended."""

import pytest

from tests.contracts.problems import make_dataset, random_problem
from tests.contracts.solver import SMALLEST_CACHE
from tests.training import Turns, train


@pytest.mark.parametrize("cache_bytes", [SMALLEST_CACHE, 10 << 20])
def test_sweeps_are_those_of_the_last_pass_until_the_next_begins(tmp_path, cache_bytes):
    dataset = make_dataset(tmp_path / "data", *random_problem(1500))
    streaming, certifying = [], []

    class Looking(Turns):
        """Notes how many sweeps there are when the trainer waits."""

        def wait_until(self, is_done):
            def look():
                if not (is_over := is_done()):
                    is_certifying = self.control["certificates_made"] < self.control["certificates_wanted"]
                    (certifying if is_certifying else streaming).append(self.control["sweeps"])
                return is_over

            return super().wait_until(look)

    settings = {"on_disk": True, "tolerance": None, "updates_per_row": 7, "max_passes": 2}
    found = train(tmp_path / "run", dataset, cache_bytes, link=Looking, **settings)
    assert set(streaming) <= {0}
    assert set(certifying) == {found.state.control["sweeps"]} == {7}


def test_what_it_collects_it_says_until_all_is_there(tmp_path):
    """The reader goes by it."""
    dataset = make_dataset(tmp_path / "data", *random_problem(1500))
    seen = []

    class Looking(Turns):
        def has_committed(self, number):
            seen.append((self.control["pass"], self.control["collects"]))
            return super().has_committed(number)

    settings = {"tolerance": None, "max_passes": 3}
    train(tmp_path / "run", dataset, SMALLEST_CACHE, link=Looking, on_disk=True, **settings)
    assert len(seen) > 5 and set(seen) == {(1, 1)}
    seen.clear()
    train(tmp_path / "without", dataset, SMALLEST_CACHE, link=Looking, **settings)
    assert {collects for _, collects in seen} == {0}
