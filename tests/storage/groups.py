"""Made-up control groups: what the kernel would show of them."""


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def member(tmp_path, *lines):
    """The file that says in which groups a process is."""
    path = tmp_path / "membership"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path
