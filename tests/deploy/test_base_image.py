"""An image that is built for tests has this machine's pip, wherever that looks."""

from tests.containers.base_image import lent, pip_settings


def test_files_and_folders_of_this_machine_are_lent_and_addresses_are_not(tmp_path):
    index, certificate = tmp_path / "packages/simple", tmp_path / "ca.pem"
    index.mkdir(parents=True)
    certificate.touch()
    assert lent("cert", str(certificate)) == [certificate]
    assert lent("find-links", f"{tmp_path} {tmp_path / 'missing'} wheels") == [tmp_path]
    assert lent("extra-index-url", f"file://{index} https://pypi.org/simple") == [index.parent]
    assert lent("cache-dir", str(tmp_path)) == []


def test_a_variable_wins_over_a_file(tmp_path, monkeypatch):
    (tmp_path / "pip.conf").write_text("[global]\nfind-links = /file\ntimeout = 7\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_FIND_LINKS", "/variable")
    settings = pip_settings()
    assert settings["find-links"] == "/variable" and settings["timeout"] == "7"
