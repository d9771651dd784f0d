"""Reading levels off measured curves."""

import pytest

from tests.bench import page
from tests.bench.command import chosen, write
from tests.bench.curve import Point, difference, median_or_none, median_spent_to, spent_to
from tests.bench.usage import Spent


def curve(*pairs):
    """Points over an optimum of 100 from (seconds, relative difference)."""
    return [Point(Spent(seconds, 2 * seconds), 100.0 * (1 + off), "") for seconds, off in pairs]


def seconds_to(points, optimum, level):
    """Without the core seconds."""
    found = spent_to(points, optimum, level)
    return found and found.seconds


def test_between_two_points_the_logarithm_falls_evenly():
    points = curve((1.0, 1e-1), (3.0, 1e-5))
    assert seconds_to(points, 100.0, 1e-3) == pytest.approx(2.0)
    assert seconds_to(points, 100.0, 1e-2) == pytest.approx(1.5)


def test_a_point_on_the_level_is_taken_as_it_is():
    points = [Point(Spent(seconds), objective, "") for seconds, objective in ((1.0, 2.0), (5.0, 1.5), (9.0, 1.0))]
    assert seconds_to(points, 1.0, 0.5) == 5.0


def test_a_curve_may_begin_below_the_level_or_never_get_there():
    assert seconds_to(curve((7.0, 1e-4)), 100.0, 1e-3) == 7.0
    assert seconds_to(curve((7.0, 1e-2), (9.0, 2e-3)), 100.0, 1e-3) is None
    assert seconds_to([], 100.0, 1e-3) is None


def test_the_first_time_counts_and_the_order_of_points_does_not():
    points = curve((4.0, 1e-2), (1.0, 1e-1), (2.0, 1e-3), (3.0, 1e-1))
    assert seconds_to(points, 100.0, 1e-2) == pytest.approx(1.5)


def test_a_curve_at_the_optimum_itself():
    assert difference(100.0, 100.0) > 0
    points = curve((1.0, 0.1), (2.0, 0.0))
    assert 1.0 < seconds_to(points, 100.0, 1e-4) < 2.0


def test_median_counts_none_as_never():
    assert median_or_none([3.0, None, 1.0]) == 3.0
    assert median_or_none([3.0, None, None]) is None
    assert median_or_none([]) is None
    curves = [curve((1.0, 1e-4)), curve((2.0, 1e-4)), curve((3.0, 1.0))]
    assert median_spent_to(curves, 100.0, 1e-3) == Spent(2.0, 4.0)
    assert median_spent_to(curves[1:], 100.0, 1e-3) is None


def test_core_seconds_are_interpolated_like_seconds_and_unknown_ones_stay_unknown():
    assert spent_to(curve((1.0, 1e-1), (3.0, 1e-5)), 100.0, 1e-3).core_seconds == pytest.approx(4.0)
    points = [Point(Spent(1.0), 110.0, ""), Point(Spent(2.0, 1.0), 100.0, "")]
    assert spent_to(points, 100.0, 1e-2).core_seconds is None


BENCHES = {"kernel": list, "comparison": {"a9a": tuple, "kernels": set}, "disk": dict}


def test_words_name_benches_and_their_parts():
    assert chosen(["comparison", "a9a", "disk"], BENCHES) == {"comparison a9a": tuple, "disk": dict}
    both = {"comparison a9a": tuple, "comparison kernels": set}
    assert chosen(["comparison"], BENCHES) == both
    assert chosen([], BENCHES) == {"kernel": list, **both, "disk": dict}


def test_the_page_of_results_has_every_question_and_is_written_as_a_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "QUESTIONS", {heading: lambda: iter(["measured"]) for heading in page.QUESTIONS})
    monkeypatch.setattr(page, "RESULTS", tmp_path / "RESULTS.md")
    page.main("--write")
    lines = (tmp_path / "RESULTS.md").read_text().splitlines()
    assert [line[3:] for line in lines if line.startswith("## ")] == [*page.QUESTIONS]
    assert lines.count("measured") == len(page.QUESTIONS) and sum(line.startswith("commit ") for line in lines) == 1


@pytest.mark.parametrize("words", [["nothing"], ["a9a"], ["kernel", "a9a"], ["comparison", "nothing"]])
def test_a_word_that_names_nothing_is_refused(words):
    with pytest.raises(ValueError, match=f"no such bench: {words[-1]}"):
        chosen(words, BENCHES)


def test_a_part_replaces_its_own_section_alone(tmp_path):
    results = tmp_path / "RESULTS.md"
    results.write_text("# Results\n\n## comparison a9a\n\nold\n\n## comparison a9a.t\n\nstays\n")
    write(["## comparison a9a", "", "new"], results)
    assert results.read_text() == "# Results\n\n## comparison a9a\n\nnew\n\n## comparison a9a.t\n\nstays\n"


def test_a_new_section_is_the_last_one_after_an_empty_line(tmp_path):
    results = tmp_path / "RESULTS.md"
    results.write_text("# Results\n\n## growth\n\nstays\n")
    write(["## convergence iris", "", "new"], results)
    assert results.read_text() == "# Results\n\n## growth\n\nstays\n\n## convergence iris\n\nnew\n"
