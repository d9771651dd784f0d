"""The table of trainer/README.md that says what options solvers have.

python -m streamsvm.service.jobs.fields.option_table
"""

import json

from streamsvm.trainer.solvers import OPTIONS, users


def option_table() -> str:
    """Markdown, a line an option."""
    lines = ["| option | of | default | meaning |", "| --- | --- | --- | --- |"]
    for name, option in OPTIONS.items():
        default = f"`{json.dumps(option.default)}`" if option.choices else json.dumps(option.default)
        kinds = "".join(f", `{json.dumps(choice)}`" for choice in option.choices if choice != option.default)
        solvers = ", ".join(f"`{solver}`" for solver in users(name))
        lines.append(f"| `{name}` | {solvers} | {default}{kinds and f' (or {kinds[2:]})'} | {option.meaning} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(option_table())
