"""Newton steps over random problems, degenerate ones among them, end within bounds and at the reference's optimum."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from streamsvm.storage.features.visits import UNMAPPED
from streamsvm.trainer.newton import system
from streamsvm.trainer.newton.own_rows import RowLabels
from streamsvm.trainer.newton.scans import Interrupted, Scans
from streamsvm.trainer.problem.losses import LOSSES
from streamsvm.trainer.problem.tasks import Task, Tasks
from streamsvm.trainer.sweeps.sweep import Threads
from tests.reference.newton import MARGIN, bracket, dual, is_in_box, primal, w_of
from tests.trainer.newton.kit import Rows, begin, solve

GAP = 1e-6


@st.composite
def problems(draw, powers=(-3, 8)):
    """(rows, tasks): one task, some of whose rows are equal, empty, weightless or left out."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    loss, n, d = draw(st.sampled_from(LOSSES)), draw(st.integers(1, 30)), draw(st.integers(1, 12))
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < draw(st.sampled_from([0.3, 1.0])))
    for kind in draw(st.sets(st.sampled_from(["equal", "zero", "constant", "scaled", "twice"]))):
        if kind == "equal":
            X[: n // 2] = X[-1]
        elif kind == "zero":
            X[:: max(2, n // 3)] = 0.0
        elif kind == "constant":
            X[:, 0] = 1.0
        elif kind == "scaled":
            X *= 10.0 ** rng.integers(-1, 4, d)
        else:
            X[:, -1] = X[:, 0]
    y = X @ rng.standard_normal(d) + draw(st.sampled_from([0.0, 1.0])) * rng.standard_normal(n)
    if loss in MARGIN:
        y = np.where(y > 0, 1.0, -1.0) * (-1.0 if draw(st.booleans()) else 1.0)
        y = np.ones(n) if draw(st.integers(0, 7)) == 0 else y
    weight = rng.choice([0.0, 0.5, 3.0], n) if draw(st.booleans()) else None
    fold = rng.integers(0, 2, n) if draw(st.booleans()) else None
    C = 10.0 ** draw(st.integers(*powers))
    task = Task(0, None if fold is None else 0, C, C if draw(st.booleans()) else 2.0 * C)
    tasks = Tasks(loss, (task,), n_folds=1 if fold is None else 2, epsilon=draw(st.sampled_from([0.0, 0.1])))
    return Rows(X, y, loss, fold, weight), tasks


def check_consistent(found, problem, number=0):
    """What has been put back: alpha in its box, and the w of alpha."""
    alpha, w = found.alpha[:, number], found.w[:, number]
    assert is_in_box(problem, alpha)
    v = w_of(problem, alpha)
    # A checkpoint is checked for as much. Sums of terms that cancel each other round; where C is huge, alpha does too.
    terms = np.abs(problem.X).T @ np.abs(alpha)
    error = 1e-9 if problem.C.max() <= 1e5 else 1e-5
    assert np.linalg.norm(w - v) <= error * np.linalg.norm(w) + 1e-14 * np.linalg.norm(terms)


@given(problems())
@settings(max_examples=60)
def test_every_problem_ends_within_its_bounds(given_problem):
    rows, tasks = given_problem
    problem, D = rows.problem(tasks), [-np.inf]
    note(f"{tasks} {problem}")

    def look(found):
        check_consistent(found, problem)
        D.append(dual(problem, found.alpha[:, 0]))
        alpha, w, P = found.alpha[:, 0], found.w[:, 0], primal(problem, found.w[:, 0])
        # Sums of large terms round, and so do entropies of alpha / C.
        rounding = 1e-11 * (np.abs(alpha).sum() * (1.0 + np.abs(problem.y).max()) + float(w @ w))
        rounding += 1e-14 * problem.C.sum()
        # Near its target a task may leave a better centre for an alpha whose w is near enough, too.
        assert D[-1] >= D[-2] - rounding - GAP * P
        assert D[-1] <= P + rounding

    found = solve(rows, tasks, GAP, after_step=look)
    task = found.steps.each[0]
    if tasks.largest_C <= 1e4:
        # Steps may be given up, and sweeps go on, where P is a millionth of P(0) and this near: margins are rounded.
        left = 0.0 if task.is_done else 1e-12 * problem.C.sum()
        assert task.gap <= GAP or task.primal - task.dual <= left
        lower, upper = bracket(problem)
        P = primal(problem, found.model_w())
        rounding = left + 1e-14 * problem.C.sum() + 1e-300  # of margins, times C; the reference rounds, too
        assert lower * (1 - 1e-9) - rounding <= P <= upper * (1 + GAP) + rounding
        assert D[-1] <= upper * (1 + 1e-9) + rounding


@given(problems((-2, 4)))
@settings(max_examples=15)
def test_any_number_of_threads_makes_the_same_bytes(given_problem):
    rows, tasks = given_problem
    each = [solve(rows, tasks, GAP, threads) for threads in (1, 4)]
    assert len({(found.alpha.tobytes(), found.w.tobytes(), found.steps.scans) for found in each}) == 1
    assert rows.reads == sum(found.steps.scans for found in each)


@pytest.mark.parametrize("d", [6, 200], ids=["of features", "of rows"])
def test_tasks_side_by_side_make_the_same_bytes(d):
    """Several threads answer for some tasks each, and solve their systems."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, d))
    y = np.where(X[:, 0] + rng.standard_normal(150) > 0, 1.0, -1.0)
    tasks = Tasks("hinge", tuple(Task(0, None, C, C) for C in (0.01, 0.1, 1.0, 10.0, 100.0)))
    each = [solve(Rows(X, y, "hinge"), tasks, GAP, threads) for threads in (1, 3)]
    assert all(task.is_done for task in each[0].steps.each.values())
    assert len({(found.alpha.tobytes(), found.w.tobytes(), found.steps.scans) for found in each}) == 1


def test_an_error_of_one_task_is_raised_when_all_have_ended():
    ended = []

    def make(number):
        if number == 0:
            raise Interrupted
        ended.append(number)
        return -number

    with ThreadPoolExecutor(2) as pool:
        scans = Scans(Rows(np.eye(2), np.ones(2), "hinge"), 2, UNMAPPED, Threads(2, pool), iter)
        assert scans.side_by_side(make, [3, 1, 2]) == [-3, -1, -2]
        ended.clear()
        with pytest.raises(Interrupted):
            scans.side_by_side(make, [0, 1, 2, 3])
        assert {1, 3} <= set(ended)


def test_columns_that_rows_may_have_are_collected_by_one_thread(monkeypatch):
    """Two threads would each make the column, and lose what the other had written to its own."""
    take, at_once, most = RowLabels.take, [], []

    def slow(self, rows):
        at_once.append(rows)
        most.append(len(at_once))
        time.sleep(1e-3)
        take(self, rows)
        at_once.pop()

    monkeypatch.setattr(RowLabels, "take", slow)
    rng = np.random.default_rng(0)
    rows = Rows(rng.normal(size=(60, 3)), rng.normal(size=60), "epsilon_insensitive", weight=np.ones(60))
    solve(rows, Tasks.single("epsilon_insensitive", 1.0, epsilon=0.1), GAP, threads=2)
    assert len(most) > 1 and max(most) == 1


@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive"])
def test_a_row_of_some_weight_takes_the_steps_of_as_many_equal_rows(loss):
    rng = np.random.default_rng(0)
    X, noise, times = rng.standard_normal((80, 5)), rng.standard_normal(80), rng.choice([1, 2, 60], 80)
    y = np.where(X[:, 0] + noise > 0, 1.0, -1.0) if loss in MARGIN else X[:, 0] + noise
    each = Rows(X, y, loss, weight=times), Rows(X.repeat(times, axis=0), y.repeat(times), loss)
    joined, apart = (solve(rows, Tasks.single(loss, 1.0, epsilon=0.1), GAP) for rows in each)
    assert joined.steps.scans == apart.steps.scans
    np.testing.assert_allclose(joined.w, apart.w, rtol=1e-6)


@given(problems((-2, 4)), st.integers(1, 40))
@settings(max_examples=25)
def test_an_interrupted_scan_leaves_alpha_and_its_w(given_problem, last):
    """A scan ends early because the job ends, or because the disk failed."""
    rows, tasks = given_problem
    scans = [0]

    def going(segments):
        scans[0] += 1
        for rows_of_segment in segments:
            if scans[0] == last:
                return
            yield rows_of_segment

    try:
        found = begin(rows, tasks, lambda _distance, gap: gap <= GAP, going=going)
    except Interrupted:
        return
    try:
        while found.steps.active:
            found.steps.step()
    except Interrupted:
        assert scans[0] == last
    found.steps.put_back()
    check_consistent(found, rows.problem(tasks))


def lanes(loss="hinge", n=60):
    """Rows of three folds, and tasks of two values of C, each for all rows and for all but a fold."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((n, 4)) * [1.0, 100.0, 1.0, 1.0]
    y = X @ rng.standard_normal(4) + rng.standard_normal(n)
    y = np.where(y > 0, 1.0, -1.0) if loss in MARGIN else y
    each = tuple(Task(0, fold, C, C) for C in (0.1, 100.0) for fold in (None, 0, 1))
    fold = rng.integers(0, 3, n)
    return Rows(X, y, loss, fold, rng.choice([0.0, 1.0, 2.0], n)), Tasks(loss, each, n_folds=3, epsilon=0.1)


@pytest.mark.parametrize("loss", LOSSES)
def test_interrupted_while_systems_are_solved_tasks_have_alpha_and_its_w(loss):
    """A task may have a new centre already, which its rows have not been told of, while the next one's is solved."""
    rows, tasks = lanes(loss)
    last = np.inf
    while last > 1:
        solved = 0

        def go_on(seconds, last=last):
            nonlocal solved
            solved += 1
            if solved == last:
                raise Interrupted

        found = begin(rows, tasks, lambda _distance, gap: gap <= GAP, go_on=go_on)
        try:
            while found.steps.active:
                found.steps.step()
        except Interrupted:
            assert solved == last
        found.steps.put_back()
        for number in range(len(tasks.each)):
            check_consistent(found, rows.problem(tasks, number), number)
        last = min(solved, last) - 7


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("few", [0, 128])
def test_tasks_side_by_side_find_their_own_optima(loss, few, monkeypatch):
    """By systems of rows, where these are fewer than features, and by systems of features alone."""
    monkeypatch.setattr(system, "_FEW", few)
    rows, tasks = lanes(loss)
    found = solve(rows, tasks, 1e-9)
    for number in range(len(tasks.each)):
        problem = rows.problem(tasks, number)
        check_consistent(found, problem, number)
        lower, upper = bracket(problem)
        assert found.steps.each[number].is_done
        assert lower * (1 - 1e-9) <= primal(problem, found.model_w(number)) <= upper * (1 + 1e-9)
        assert not found.alpha[rows.fold == tasks.each[number].fold, number].any()


def test_tasks_that_are_not_trained_stay_as_they_are():
    rows, tasks = lanes()
    found = begin(rows, tasks, lambda _distance, gap: gap <= GAP, numbers=[1, 4])
    while found.steps.active:
        found.steps.step()
    found.steps.put_back()
    trained = found.alpha.any(axis=0)
    assert trained.tolist() == [number in (1, 4) for number in range(tasks.width)]
    assert found.w.any(axis=0).tolist() == trained.tolist()


@pytest.mark.parametrize("loss", LOSSES)
def test_steps_that_are_left_every_few_steps_go_on_where_they_were(loss):
    """As after a kill: an alpha alone would lose the steps since its centre, over and over."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((300, 20)) * 10.0 ** rng.uniform(0, 4, 20)
    y = X @ (1.0 / X.std(axis=0)) + 2.0 * rng.standard_normal(300)
    rows = Rows(X, np.sign(y) if loss in MARGIN else y, loss)
    tasks = Tasks.single(loss, 30.0)
    undisturbed = solve(rows, tasks, 1e-7).steps.each[0].steps
    alpha, left, n_steps = None, None, 0
    for _ in range(undisturbed):
        found = begin(rows, tasks, lambda _distance, gap: gap <= 1e-7, alpha=alpha, left=left)
        for _ in range(3):
            if found.steps.active:
                found.steps.step()
        found.steps.put_back()
        alpha, left, n_steps = found.alpha, found.steps.left(), n_steps + found.steps.each[0].steps
        if not found.steps.active:
            break
    assert found.steps.each[0].is_done
    assert n_steps <= 1.2 * undisturbed + 3


def test_steps_from_near_the_optimum_are_few():
    rows, tasks = lanes()
    first = solve(rows, tasks, 1e-8)
    again = solve(rows, tasks, 1e-6, alpha=first.alpha)
    assert (
        max(task.steps for task in again.steps.each.values())
        <= 3
        < max(task.steps for task in first.steps.each.values())
    )


def test_no_rows_and_rows_that_are_all_left_out_cost_nothing():
    tasks = Tasks("hinge", (Task(0, 0, 1.0, 1.0),), n_folds=2)
    for n in (0, 4):
        rows = Rows(np.ones((n, 2)), np.ones(n), "hinge", np.zeros(n, int))
        found = solve(rows, tasks)
        assert found.steps.each[0].is_done
        assert not found.w.any() and not found.alpha.any()


def test_w_is_that_of_alpha_if_the_first_that_is_near_is_not():
    """It was near enough to the optimum, the w of alpha was not. Three looks without a step between were the end."""
    X = np.array([[-1.1, 0.7], [-1.1, 2.0], [0.9, -0.4], [0.6, 1.6], [2.8, -0.9], [1.1, 0.5], [-0.3, 1.1]])
    rows, tasks = Rows(X, np.ones(7), "hinge"), Tasks.single("hinge", 1.0)
    found = solve(rows, tasks, 1e-2)
    check_consistent(found, rows.problem(tasks))


def test_w_is_that_of_alpha_where_rows_of_zeros_have_most_of_the_objective():
    """w was near its optimum at once, relative to P; the w of alpha, which magnifies what is left by C, was not."""
    X = np.zeros((10, 9))
    X[[1, 3, 4, 5, 7, 8, 9]] = [
        [100, -16, 1100, 420, -1500, 600, 0.22, 0.13, 96], [100, -14, 1400, 2000, 1700, 700, -0.13, 0.27, -140],
        [100, 37, 1100, -470, -2300, -170, 0.0042, -1, -230], [100, -280, 820, -240, 2800, 440, -0.053, 0.48, -120],
        [100, 150, 290, 360, 450, -440, -0.057, -0.35, -19], [100, 22, 310, -280, 950, -1300, 0.26, -0.59, 100],
        [100, 29, 960, 500, -840, -1500, 0.031, -0.71, -63],
    ]  # fmt: skip
    y, weight = np.ones(10), np.full(10, 0.5)
    y[[4, 5]], weight[[0, 2, 8, 9]] = -1.0, 3.0
    rows, tasks = Rows(X, y, "squared_hinge", weight=weight), Tasks.single("squared_hinge", 1000.0)
    found, problem = solve(rows, tasks, GAP), rows.problem(tasks)
    check_consistent(found, problem)
    assert found.steps.each[0].best is None
    assert primal(problem, found.w[:, 0]) <= bracket(problem)[1] * (1 + GAP)
