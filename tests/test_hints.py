"""Every error that a user can meet says what to do: its code has a hint, or the place that raises it gives one."""

import ast
from pathlib import Path

import pytest

from streamsvm.reader.errors import HINTS as OF_INPUTS
from streamsvm.service.errors import HINTS, ServiceError, meant, refuse_other_fields

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("reader", "service", "api")


def without_hint() -> list[str]:
    """Calls that make an error of a code without a hint, as path:line code."""
    found = []
    for path in (path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))):
        for call in ast.walk(ast.parse(path.read_text())):
            if not isinstance(call, ast.Call) or not call.args or not isinstance(call.args[0], ast.Constant):
                continue
            name, code = ast.unparse(call.func), call.args[0].value
            hints = {"InputError": OF_INPUTS, "ServiceError": HINTS, "Crash": HINTS, "problem": HINTS}.get(name)
            has_own = len(call.args) > 2 or any(each.arg == "hint" for each in call.keywords)
            if hints is not None and code not in hints and not has_own:
                found.append(f"{path.relative_to(ROOT)}:{call.lineno} {code}")
    return found


def test_every_error_has_a_hint():
    assert without_hint() == []


def test_a_hint_of_the_code_stands_where_none_is_given():
    assert ServiceError("unknown_dataset", "there is no such dataset").hint == HINTS["unknown_dataset"]
    assert ServiceError("unknown_dataset", "there is no such dataset", "Look.").hint == "Look."


@pytest.mark.parametrize(("hints", "ends"), [(HINTS, True), (OF_INPUTS, False)])
def test_hints_are_sentences(hints, ends):
    assert all(hint and hint.endswith(".") == ends for hint in hints.values())


def test_unknown_fields_are_named_unless_they_are_strange():
    for field, message, hint in [
        ("modle", "there is no field 'modle' here", "Did you mean model? Send model."),
        ("<b>", "there is no field of this name here", "Send model."),
    ]:
        with pytest.raises(ServiceError) as caught:
            refuse_other_fields({field: 1}, {"model"}, "Send model.")
        assert (caught.value.code, caught.value.message, caught.value.hint) == ("unknown_field", message, hint)
    assert meant("zzz", ["model"]) == ""
