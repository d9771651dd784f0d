"""Tokens are shown once, stored as hashes, and refused after they are revoked."""

import pytest

from streamsvm.service.cli import main
from streamsvm.service.errors import ServiceError
from streamsvm.service.records.database import Database, now
from streamsvm.service.records.tokens import SCHEMA, SCOPES, Tokens, allows, expiry, hash_of
from tests.refusals import refused


@pytest.fixture
def tokens(tmp_path):
    return Tokens(Database(tmp_path / "store.sqlite"))


def test_a_token_is_known_by_its_hash_and_kept_nowhere(tokens, tmp_path):
    token = tokens.new("ada", "submit")
    assert tokens.table() == {hash_of(token): ("ada", "submit", None)}
    assert [(shown["name"], shown["scope"]) for shown in tokens.list()] == [("ada", "submit")]
    for path in tmp_path.iterdir():
        assert token.encode() not in path.read_bytes()


def test_tokens_differ_and_are_long(tokens):
    made = {tokens.new(str(number), "read") for number in range(20)}
    assert len(made) == 20 and min(map(len, made)) >= 48


def test_a_revoked_token_is_gone(tokens):
    tokens.new("ada", "read")
    tokens.revoke("ada")
    assert tokens.table() == {} and tokens.list() == []
    with refused(ServiceError, "unknown_token"):
        tokens.revoke("ada")


def test_that_there_have_been_tokens_outlasts_them_and_the_records(tokens, tmp_path):
    assert not tokens.are_needed() and tokens.table() == {}
    tokens.new("ada", "read")
    tokens.revoke("ada")
    (tmp_path / "store.sqlite").unlink()
    found = Tokens(Database(tmp_path / "store.sqlite"))
    assert found.are_needed() and found.table() == {}


def test_tokens_of_a_version_that_made_no_mark_are_needed(tokens, tmp_path):
    tokens.new("ada", "read")
    (tmp_path / "tokens-needed").unlink()
    assert Tokens(Database(tmp_path / "store.sqlite")).are_needed()


def test_a_store_whose_tokens_have_no_end_gets_the_columns(tmp_path):
    database = Database(tmp_path / "store.sqlite")
    with database.write() as connection:
        connection.execute(SCHEMA)
        connection.execute("INSERT INTO tokens VALUES ('ada', 'read', 'x', '2026-01-01T00:00:00.000Z')")
    assert Tokens(database).table() == {"x": ("ada", "read", None)}
    Tokens(database).note_use("ada")
    (shown,) = Tokens(database).list()
    assert shown["expires_at"] is None and shown["last_used_at"] > shown["created_at"]


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "0d", "30 d", "2001-01-01", "soon", "999999w", "2030-13-01"])
def test_ends_that_are_none(text):
    with refused(ServiceError, "expires_invalid"):
        expiry(text)


def test_ends_are_utc():
    assert expiry("2100-01-01") == "2100-01-01T00:00:00.000Z" == expiry("2100-01-01T02:00:00+02:00")
    assert now() < expiry("1h") < expiry("1d") < expiry("1w")


def test_a_name_is_given_once(tokens):
    tokens.new("ada", "read")
    with pytest.raises(ServiceError) as caught:
        tokens.new("ada", "admin")
    assert caught.value.code == "token_exists" and [token.scope for token in tokens.table().values()] == ["read"]


@pytest.mark.parametrize("name", ["", " ", "a b", "-a", "a/b", "x" * 65, "a\n", "\x1b[31m"])
def test_names_that_are_none(tokens, name):
    with refused(ServiceError, "name_invalid"):
        tokens.new(name, "read")


def test_each_scope_allows_what_those_before_it_do():
    allowed = [[allows(scope, needed) for needed in SCOPES] for scope in SCOPES]
    assert allowed == [[True, False, False], [True, True, False], [True, True, True]]


def test_the_command(tmp_path, capsys):
    where = ["--data-dir", str(tmp_path)]
    assert main(["token", "new", "ada", "--scope", "admin", *where]) == 0
    token = capsys.readouterr().out.strip()
    assert Tokens(Database(tmp_path / "streamsvm.sqlite")).table() == {hash_of(token): ("ada", "admin", None)}
    assert main(["token", "ls", *where]) == 0
    shown = capsys.readouterr().out
    assert shown.split()[:2] == ["ada", "admin"] and token not in shown
    assert shown.split()[4:] == ["expires", "never", "used", "never"]
    assert main(["token", "new", "eve", "--expires", "yesterday", *where]) == 2
    assert "this is no time" in capsys.readouterr().err
    assert main(["token", "new", "eve", "--expires", "2100-01-01", *where]) == 0
    assert main(["token", "ls", *where]) == 0
    assert "2100-01-01T00:00:00.000Z  used never" in capsys.readouterr().out
    assert main(["token", "revoke", "ada", *where]) == 0
    assert main(["token", "revoke", "ada", *where]) == 2
    assert "no such token" in capsys.readouterr().err
