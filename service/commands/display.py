"""How training is shown while it goes on."""

import json
import shutil
import sys
import time
from collections.abc import Mapping
from typing import Any

from streamsvm.service.commands.gap_curve import WIDTH, GapCurve, picture
from streamsvm.service.jobs.fields.kernel_values import warning_of
from streamsvm.service.sizes import format_size

_BESIDE_BARS, _FEWEST_BARS = 21, 20  # characters: labels on both sides; for fewer there is the line alone


class Display:
    """One plain line a pass, on standard error."""

    def __init__(self, tolerance: float | None) -> None:
        self._tolerance = tolerance
        self._passes = 0
        self._told: set[str] = set()

    def __call__(self, progress: dict[str, Any], history: list[dict[str, Any]]) -> None:
        """Show the newest progress of a job that runs in this command."""
        for record in history[self._passes :]:
            self.show_pass(record)
        self._passes = len(history)
        self.show_progress(progress)

    def say(self, text: str) -> None:
        """Print a line for a person."""
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
        self.say(
            f"pass {record['pass']}: M+ - M- {short(record['gap'])}, dual {short(record['dual_objective'], 8)}, "
            f"relative gap <= {short(record['relative_gap_bound'])}, {format_size(record['resident_bytes'])} cached, "
            f"{record['elapsed_seconds']:.1f} s"
        )

    def show_slowdowns(self, record: dict[str, Any]) -> None:
        """Print each slower way taken since the last pass, once."""
        for each in record.get("slowdowns", ()):
            if each["code"] not in self._told:
                self._told.add(each["code"])
                self.say(f"warning: {each['message']}. {each['hint']} [{each['code']}]")

    def show_progress(self, progress: dict[str, Any]) -> None:
        """Show progress within a pass."""

    def show_folds(self, result: Mapping[str, Any]) -> None:
        """Print the metrics of a cross-validation, if there was one."""
        for each in result.get("cv", ()):
            said = ", ".join(
                f"{name} {short(mean, 4)} +- {short(each['std'][name], 2)}" for name, mean in each["mean"].items()
            )
            self.say(f"C = {short(each['C'])}: {said}" + (", selected" if each["C"] == result["selected_C"] else ""))
            for line in _in_liblinears_words(each["all"]):
                self.say(line)

    def finish(self, result: Mapping[str, Any], output: str | None) -> None:
        """Print the result; the model is in the file."""
        certificate = result["certificate"]
        outcome = "converged" if result["converged"] else "not converged"
        self.say(f"{outcome} ({result['stop_reason']}) after {passes(result['passes'])}: {_reached(certificate)}")
        if warning := warning_of(result["machine"]) if "machine" in result else None:
            self.say(f"warning: {warning}")
        if output is not None:
            self.say(f"wrote {output}")


def _reached(certificate: Mapping[str, Any]) -> str:
    objective = f"objective {short(certificate['primal_objective'], 8)}"
    if certificate["gap"] is None and certificate["relative_duality_gap"] is None:
        return f"{objective}, which nothing bounds from below"
    relative = short(certificate["relative_duality_gap"])
    return f"M+ - M- {short(certificate['gap'])}, {objective}, relative duality gap {relative}"


class Picture(Display):
    """A line for each pass, and at the end a picture of how M+ - M- fell."""

    def __init__(self, tolerance: float | None) -> None:
        super().__init__(tolerance)
        self.curve = GapCurve()

    def show_progress(self, progress: dict[str, Any]) -> None:
        self.curve.note(progress)

    def finish(self, result: Mapping[str, Any], output: str | None) -> None:
        for line in self.picture():
            self.say(line)
        self.curve = GapCurve()
        super().finish(result, output)

    def picture(self, width: int = WIDTH) -> list[str]:
        """Lines of the picture of M+ - M- so far."""
        is_utf = (sys.stderr.encoding or "").lower().startswith("utf")
        return picture(self.curve.values, self.curve.unit, self._tolerance, width, is_utf)


class TerminalPicture(Picture):
    """The picture as it grows, and below it a line with the latest figures; both are written over."""

    def __init__(self, tolerance: float | None) -> None:
        super().__init__(tolerance)
        self._drawn = 0  # lines

    def show_pass(self, record: dict[str, Any]) -> None:
        self.show_slowdowns(record)

    def show_progress(self, progress: dict[str, Any]) -> None:
        super().show_progress(progress)
        columns, rows = shutil.get_terminal_size()
        width = min(WIDTH, columns - _BESIDE_BARS)
        lines = self.picture(width) if width >= _FEWEST_BARS else []
        if len(lines) + 1 >= rows:
            lines = []
        lines.append(progress_line(progress, self._tolerance))
        text = "\n".join(line[: columns - 1] for line in lines)
        print(self._erased() + text, end="", file=sys.stderr, flush=True)
        self._drawn = len(lines)

    def say(self, text: str) -> None:
        print(self._erased(), end="", file=sys.stderr)
        super().say(text)

    def _erased(self) -> str:
        """The text that moves the cursor to the first line of the drawing and erases it."""
        drawn, self._drawn = self._drawn, 0
        return f"\r\033[{drawn - 1}A\033[J" if drawn > 1 else "\r\033[K"


class JsonLines(Display):
    """Objects for machines, on standard output."""

    def say(self, text: str) -> None:
        pass

    def show_pass(self, record: dict[str, Any]) -> None:
        print(json.dumps(record), flush=True)

    def show_folds(self, result: Mapping[str, Any]) -> None:
        if "cv" in result:
            print(json.dumps({name: result[name] for name in ("cv", "selected_C")}), flush=True)

    def finish(self, result: Mapping[str, Any], output: str | None) -> None:
        print(json.dumps({"result": {**result, "model": output, "at": time.time()}}), flush=True)


def display(is_json: bool, tolerance: float | None) -> Display:
    """The display for JSON, a terminal or a file."""
    kind = JsonLines if is_json else TerminalPicture if sys.stderr.isatty() else Display
    return kind(tolerance)


def progress_line(progress: dict[str, Any], tolerance: float | None) -> str:
    """Pass, block or sweep, M+ - M- against the tolerance, objective, rows a second, remaining time."""
    place = (
        f"sweep {progress['sweep']}" if progress["sweep"] else f"block {progress['block']}/{progress['blocks'] or '?'}"
    )
    parts = [f"pass {progress['pass']} {place}"]
    if progress["gap"] is not None:
        against = f" of {short(tolerance)}" if tolerance is not None else ""
        parts.append(f"M+ - M- {short(progress['gap'])}{against}")
        parts.append(f"dual {short(progress['dual_objective'], 8)}")
    if progress["elapsed_seconds"]:
        parts.append(f"{progress['rows_streamed'] / progress['elapsed_seconds']:,.0f} rows/s")
    if progress["eta_seconds"] is not None:
        parts.append(f"{duration(progress['eta_seconds'])} left")
    return "  ".join(parts)


def _in_liblinears_words(figures: Mapping[str, float | None]) -> list[str]:
    """The lines that LIBLINEAR's -v prints, over the rows of all folds together."""
    if "mse" in figures:
        correlation = short(figures["squared_correlation"], 6)
        return [
            f"Cross Validation Mean squared error = {short(figures['mse'], 6)}",
            f"Cross Validation Squared correlation coefficient = {correlation}",
        ]
    return [f"Cross Validation Accuracy = {100 * figures['accuracy']:g}%"]  # type: ignore[operator]


def duration(seconds: float) -> str:
    """Seconds for people: 45 s, 12:30, 3:05:00."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{rest:02}"
    return f"{minutes}:{rest:02}" if minutes else f"{rest} s"


def passes(count: int) -> str:
    """A number of passes in words."""
    return "1 pass" if count == 1 else f"{count} passes"


def short(number: float | None, digits: int = 3) -> str:
    """A number for people, ? if there is none."""
    return "?" if number is None else f"{number:.{digits}g}"
