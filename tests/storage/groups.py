"""Writes the files that the kernel would show for control groups."""


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def member(tmp_path, *lines):
    """The file in which the kernel lists the groups of a process."""
    path = tmp_path / "membership"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path
