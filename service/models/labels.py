"""Labels as people and texts have them."""

from storage.model_file import Label


def shown_label(label: Label) -> str:
    """A text as it is; a number in as few digits as give it back, a whole one without a point."""
    return label if isinstance(label, str) else f"{label:.17g}"
