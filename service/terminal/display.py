"""Shows a job's progress on a terminal, as plain lines or as JSON."""

import json
import math
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from streamsvm.service.jobs.fields.from_text import format_size
from streamsvm.service.jobs.fields.scoring import figure_among
from streamsvm.service.jobs.progress.states import ASK_MORE, ESTIMATES, score_in, warning_of
from streamsvm.service.terminal.spelling import in_dashes

WIDTH, HEIGHT = 60, 8  # characters of the area of bars
_MARGIN = 8  # characters of the labels on the left
_MOST_DECADES = 12
_BLOCKS, _ASCII = " ▁▂▃▄▅▆▇█", " ...::::#"
_EIGHTHS = len(_BLOCKS) - 1


class GapCurve:
    """M+ - M- of one lane after each sweep and Newton step, or after each pass of a job without them.

    values    M+ - M- after sweep or step 1, 2, ...; if no progress reported a sweep, it has the value of the one before
    n_newton  number of Newton steps among them
    """

    def __init__(self) -> None:
        self.unit = "sweep"
        self._lane: Any = None
        self._begin()

    @property
    def caption(self) -> str:
        """The text below the curve, which says what the values belong to, such as "sweep 1 to 8"."""
        if not self.n_newton:
            return f"{self.unit} 1 to {len(self.values)}"
        return f"sweeps: {len(self.values) - self.n_newton}, Newton steps: {self.n_newton}"

    def note(self, progress: Mapping[str, Any]) -> None:
        """Add the value of a job's progress to the curve; begin a new curve if the progress is another lane's."""
        if progress["lane"] != self._lane:
            self._lane = progress["lane"]
            self._begin()
        gap, sweep, step = progress["gap"], progress["sweep"], (progress.get("newton") or {"step": 0})["step"]
        if gap is None or not 0 < gap < math.inf:
            return
        self.unit = "sweep" if sweep or step else "pass"
        new = self._new(sweep, step)
        number = len(self.values) + new if sweep or step else progress["pass"]
        last = self.values[-1] if self.values else gap
        self.values += [last] * (number - len(self.values))
        self.values[-1] = gap

    def _begin(self) -> None:
        self.values: list[float] = []
        self.n_newton = 0
        self._sweep = self._step = 0  # the latest sweep of this pass, and the latest Newton step of all passes

    def _new(self, sweep: int, step: int) -> int:
        """Return the number of sweeps and Newton steps since the last call."""
        n_sweeps = sweep - self._sweep if sweep >= self._sweep else sweep
        n_steps = max(0, step - self._step)  # an attempt that goes on from a checkpoint repeats steps
        self._sweep, self._step = sweep, step
        self.n_newton += n_steps
        return n_sweeps + n_steps


def picture(
    values: Sequence[float], caption: str, tolerance: float | None, width: int = WIDTH, blocks: bool = True
) -> list[str]:
    """Draw values > 0 as bars; return lines of text, [] without values. A dotted line marks the tolerance.

    caption  text below the picture, which says what the values belong to
    blocks   use Unicode block characters, else ASCII
    """
    if not values:
        return []
    low, high = _decades(values, tolerance)
    rows = max(1, HEIGHT // (high - low)) * (high - low)
    bars = _columns(values, width)
    heights = [round(_EIGHTHS * rows * (math.log10(value) - low) / (high - low)) for value in bars]
    target = None if tolerance is None else max(0, math.ceil(rows * (math.log10(tolerance) - low) / (high - low)) - 1)
    marks = _BLOCKS if blocks else _ASCII
    lines = [f"{'M+ - M-':>{_MARGIN}}"]
    for row in reversed(range(rows)):
        bar = "".join(marks[min(max(height - _EIGHTHS * row, 0), _EIGHTHS)] for height in heights)
        if row == target:
            bar = f"{bar.replace(' ', '.').ljust(width, '.')} tolerance"
        lines.append(f"{_label(low, high, row, rows):>{_MARGIN}} |{bar.rstrip()}")
    each = len(values) / len(bars)
    caption += "" if each <= 1 else f", {each:.3g} a bar"
    return [*lines, f"{_number(low):>{_MARGIN}} +{'-' * width}", f"{'':{_MARGIN}}  {caption}"]


def _decades(values: Sequence[float], tolerance: float | None) -> tuple[int, int]:
    """Return exponents (low, high): 10^low to 10^high has the values and tolerance, at most _MOST_DECADES apart."""
    high = math.ceil(math.log10(max(values)) - 1e-9)
    low = math.floor(math.log10(min(values)) - 1e-9)
    if tolerance is not None:
        low = min(low, math.floor(math.log10(tolerance) + 1e-9))
    return max(low, high - _MOST_DECADES), high


def _columns(values: Sequence[float], width: int) -> list[float]:
    """Return the value of each column of characters: a bar has up to four columns; many values share a column."""
    if len(values) <= width:
        wide = min(4, width // len(values))
        return [value for value in values for _ in range(wide)]
    return [values[(k + 1) * len(values) // width - 1] for k in range(width)]


def _label(low: int, high: int, row: int, rows: int) -> str:
    """Write the power of ten at the upper edge of a row of characters; "" if no decade ends there."""
    each = rows // (high - low)
    return _number(low + (row + 1) // each) if (row + 1) % each == 0 else ""


def _number(power: int) -> str:
    return f"{10.0**power:g}"


_BESIDE_BARS, _FEWEST_BARS = 21, 20  # characters of the labels beside the bars, and the narrowest picture


class Display:
    """Shows a job: prints a line for each pass to standard error.

    most_frequent  the share of rows of the most frequent class, beside which an accuracy is shown; None: not known
    """

    most_frequent: float | None = None

    def __init__(self, tolerance: float | None, relative_gap: float | None = None) -> None:
        self._tolerance, self._relative_gap = tolerance, relative_gap
        self._passes = 0
        self._told: set[str] = set()

    def __call__(self, progress: dict[str, Any], history: list[dict[str, Any]]) -> None:
        """Show the progress of a job of this process, and those passes of its history that have not been shown."""
        for record in history[self._passes :]:
            self.show_pass(record)
        self._passes = len(history)
        self.show_progress(progress)

    def say(self, text: str) -> None:
        """Print a line for people."""
        print(text, file=sys.stderr)

    def show_pass(self, record: dict[str, Any]) -> None:
        """Show a finished pass."""
        self.show_slowdowns(record)
        if "support_vectors" in record:
            self.say(
                f"pass {record['pass']}: objective about {short(record['primal_estimate'], 6)}, "
                f"{record['support_vectors']} support vectors, {record['merges']} merged, "
                f"{record['elapsed_seconds']:.1f} s"
            )
            return
        count = len(record.get("newton", ()))
        steps = f"{counted(count, 'Newton step')}, " if count else ""
        self.say(
            f"pass {record['pass']}: M+ - M- {short(record['gap'])}, dual {short(record['dual_objective'], 8)}, "
            f"relative gap <= {short(record['relative_gap_bound'])}, {format_size(record['resident_bytes'])} cached, "
            f"{steps}{record['elapsed_seconds']:.1f} s"
        )

    def show_slowdowns(self, record: dict[str, Any]) -> None:
        """Show the slowdowns that a pass reports, as warnings; each code is shown once."""
        for each in record.get("slowdowns", ()):
            if each["code"] not in self._told:
                self._told.add(each["code"])
                self.say(f"warning: {each['message']}. {in_dashes(each['hint'])} [{each['code']}]")

    def show_progress(self, progress: dict[str, Any]) -> None:
        """Show progress within a pass; this plain display tells which C is the best so far, when it changes."""
        best = best_so_far(progress)
        if best and best not in self._told:
            self._told.add(best)
            self.say(best)

    def show_folds(self, result: Mapping[str, Any], scoring: str) -> None:
        """Show cross-validation, if `result` has any: the figure of `scoring` for each C, all of the selected one."""
        tried = result.get("cv", ())
        for each in tried:
            figure, is_best = figure_among(each["mean"], scoring), each["C"] == result["selected_C"]
            metrics = ", ".join(scored(score_in(each, name)) for name in (each["mean"] if is_best else [figure]))
            beside = self._beside() if is_best and figure == "accuracy" else ""
            self.say(f"C = {short(each['C'])}: {metrics}" + (f", selected{beside}" if is_best else ""))
            for line in _in_liblinears_words(each["all"]) if len(each["folds"]) > 1 == len(tried) else ():
                self.say(line)
        if len(tried) > 1 and tried[-1]["C"] == result["selected_C"]:
            self.say("no larger C was tried, and one may be better; so may scaled features: --features scale")

    def finish(self, result: Mapping[str, Any], output: str | None) -> None:
        """Show a job's result, and the name of the model's file `output`, if there is one."""
        certificate = result["certificate"]
        outcome = "converged" if result["converged"] else "not converged"
        self.say(f"{outcome} ({result['stop_reason']}) after {made(result)}: {reached(certificate)}")
        if warning := warning_of(result["machine"]) if "machine" in result else None:
            self.say(f"warning: {warning}")
        if output is not None:
            self.say(f"wrote {output}")
        score = result.get("score", {})
        if score is None or "hint" in score:
            beside = self._beside() if score and score["metric"] == "accuracy" else ""
            known = f"{scored(score)}, {ESTIMATES[score['rows']][1]}{beside}. " if score else ""
            self.say(known + in_dashes(ASK_MORE))

    def _beside(self) -> str:
        share = self.most_frequent
        return "" if share is None else f"; always to say the most frequent class gives {short(share, 4)}"


def reached(certificate: Mapping[str, Any]) -> str:
    """Write how near to the optimum a certificate shows a model to be."""
    objective = f"objective {short(certificate['primal_objective'], 8)}"
    if certificate["gap"] is None and certificate["relative_duality_gap"] is None:
        return f"{objective}, which nothing bounds from below"
    relative = short(certificate["relative_duality_gap"])
    return f"M+ - M- {short(certificate['gap'])}, {objective}, relative duality gap {relative}"


class TerminalPicture(Display):
    """Draws a picture of M+ - M- and a line with the latest figures, and redraws both in the same place."""

    def __init__(self, tolerance: float | None, relative_gap: float | None = None) -> None:
        super().__init__(tolerance, relative_gap)
        self.curve = GapCurve()
        self._drawn = 0  # lines on the terminal, to be erased

    def show_pass(self, record: dict[str, Any]) -> None:
        self.show_slowdowns(record)

    def show_progress(self, progress: dict[str, Any]) -> None:
        self.curve.note(progress)
        columns, rows = shutil.get_terminal_size()
        width = min(WIDTH, columns - _BESIDE_BARS)
        lines = self._picture(width) if width >= _FEWEST_BARS else []
        if len(lines) + 1 >= rows:
            lines = []
        lines.append(progress_line(progress, self._tolerance, self._relative_gap))
        text = "\n".join(line[: columns - 1] for line in lines)
        print(self._erased() + text, end="", file=sys.stderr, flush=True)
        self._drawn = len(lines)

    def finish(self, result: Mapping[str, Any], output: str | None) -> None:
        for line in self._picture(WIDTH):
            self.say(line)
        self.curve = GapCurve()
        super().finish(result, output)

    def _picture(self, width: int) -> list[str]:
        is_utf = (sys.stderr.encoding or "").lower().startswith("utf")
        return picture(self.curve.values, self.curve.caption, self._tolerance, width, is_utf)

    def say(self, text: str) -> None:
        print(self._erased(), end="", file=sys.stderr)
        super().say(text)

    def _erased(self) -> str:
        """Return the escape codes that erase the drawn lines and put the cursor where they began."""
        drawn, self._drawn = self._drawn, 0
        return f"\r\033[{drawn - 1}A\033[J" if drawn > 1 else "\r\033[K"


class JsonPrinter(Display):
    """Prints JSON objects, one a line, to standard output."""

    def say(self, text: str) -> None:
        pass

    def show_pass(self, record: dict[str, Any]) -> None:
        print(json.dumps(record), flush=True)

    def show_folds(self, result: Mapping[str, Any], scoring: str) -> None:
        if "cv" in result:
            print(json.dumps({name: result[name] for name in ("cv", "selected_C")}), flush=True)

    def finish(self, result: Mapping[str, Any], output: str | None) -> None:
        print(json.dumps({"result": {**result, "model": output, "at": time.time()}}), flush=True)


def display(is_json: bool, tolerance: float | None, relative_gap: float | None = None) -> Display:
    """Choose a display: JSON lines if asked for, a picture on a terminal, else plain lines."""
    kind = JsonPrinter if is_json else TerminalPicture if sys.stderr.isatty() else Display
    return kind(tolerance, relative_gap)


def progress_line(progress: dict[str, Any], tolerance: float | None, relative_gap: float | None = None) -> str:
    """Write progress in a line: pass, block, sweep or Newton step, M+ - M-, relative gap, dual objective, times."""
    parts = [f"pass {progress['pass']} {_place(progress)}"]
    if progress["gap"] is not None:
        against = f" of {short(tolerance)}" if tolerance is not None else ""
        parts.append(f"M+ - M- {short(progress['gap'])}{against}")
    if relative_gap is not None and progress["relative_gap_bound"] is not None:
        parts.append(f"relative gap {short(progress['relative_gap_bound'])} of {short(relative_gap)}")
    if progress["gap"] is not None:
        parts.append(f"dual {short(progress['dual_objective'], 8)}")
    if progress["elapsed_seconds"]:
        parts.append(f"{progress['rows_streamed'] / progress['elapsed_seconds']:,.0f} rows/s")
    if best := best_so_far(progress):
        parts.append(best)
    if progress["eta_seconds"] is not None:
        parts.append(f"{duration(progress['eta_seconds'])} left")
    return "  ".join(parts)


def best_so_far(progress: Mapping[str, Any] | None) -> str:
    """Write the best C of a running job so far, with its score on rows held out; "" while none is judged."""
    if not progress or not progress.get("best_C"):
        return ""
    return f"best so far C = {short(progress['best_C'])}: {short(progress['best_score'], 4)}"


def _place(progress: Mapping[str, Any]) -> str:
    """Write where in its pass a job is. (An older service does not report `solver_phase`.)"""
    if progress.get("solver_phase") == "newton" and progress["newton"]:
        return f"Newton step {progress['newton']['step']} ({progress['newton']['scans']} scans)"
    if progress["sweep"]:
        return f"sweep {progress['sweep']}"
    return f"block {progress['block']}/{progress['blocks'] or '?'}"


def made(result: Mapping[str, Any]) -> str:
    """Write how much work a job took: 1 pass; 2 passes, 5 sweeps; 1 pass, 5 sweeps, 12 Newton steps in 26 scans."""
    told = [passes(result["passes"])]
    if result.get("sweeps"):
        told.append(counted(result["sweeps"], "sweep"))
    if result.get("newton_steps"):
        told.append(f"{counted(result['newton_steps'], 'Newton step')} in {result['scans']} scans")
    return ", ".join(told)


def _in_liblinears_words(figures: Mapping[str, float | None]) -> list[str]:
    """Write the metrics over the rows of all folds as lines, as LIBLINEAR's -v does."""
    if "mse" in figures:
        correlation = short(figures["squared_correlation"], 6)
        return [
            f"Cross Validation Mean squared error = {short(figures['mse'], 6)}",
            f"Cross Validation Squared correlation coefficient = {correlation}",
        ]
    return [f"Cross Validation Accuracy = {100 * figures['accuracy']:g}%"]  # type: ignore[operator]


def scored(score: Mapping[str, Any] | None) -> str:
    """Write a score for people, such as accuracy 0.857 +- 0.012, or training accuracy 0.857; "" for None."""
    if score is None:
        return ""
    spread = "" if score["std"] is None else f" +- {short(score['std'], 2)}"
    kind, _ = ESTIMATES.get(score.get("rows", ""), ("", ""))
    return f"{kind} {score['metric']} {short(score['value'], 4)}{spread}".lstrip()


def duration(seconds: float) -> str:
    """Write a duration for people: 45 s, 12:30, 3:05:00."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{rest:02}"
    return f"{minutes}:{rest:02}" if minutes else f"{rest} s"


def passes(count: int) -> str:
    """Write a number of passes: 1 pass, 2 passes."""
    return counted(count, "pass", "passes")


def counted(count: int, name: str, plural: str | None = None) -> str:
    """Write a number of things: 1 row, 2,000 rows."""
    return f"1 {name}" if count == 1 else f"{count:,} {plural or name + 's'}"


def short(number: float | None, digits: int = 3) -> str:
    """Write a number with a few digits; ? for None."""
    return "?" if number is None else f"{number:.{digits}g}"
