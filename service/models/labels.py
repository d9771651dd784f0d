"""Labels as people and texts have them."""

from streamsvm.storage.blocks.manifest import number_text
from streamsvm.storage.models.model_file import Label


def shown_label(label: Label) -> str:
    """A text as it is; a number in as few digits as give it back, a whole one without a point."""
    return label if isinstance(label, str) else number_text(label)
