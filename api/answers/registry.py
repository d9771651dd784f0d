"""Answers about registered models: names, versions and aliases."""

from streamsvm.api.answers import Answer, field


class Alias(Answer):
    """An alias and the version that it points at."""

    alias: str = field("the alias", example="champion")
    version: int = field("the version")
    moved_at: str = field("time at which it was pointed there, UTC")
    moved_by: str = field("name of the token, or address of the client, that pointed it there")


class AliasMove(Answer):
    """A move of an alias."""

    alias: str = field("the alias", example="champion")
    version: int | None = field("the version that it points at since then; null: it was deleted")
    moved_at: str = field("time of the move, UTC")
    moved_by: str = field("name of the token, or address of the client, that moved it")


class RegisteredSummary(Answer):
    """A registered model, without its versions."""

    name: str = field("the name", example="churn")
    created_at: str = field("time at which its first version was registered, UTC")
    latest_version: int | None = field("its latest version; null: all are deleted")
    aliases: list[Alias] = field("its aliases")


class RegisteredModels(Answer):
    """All registered models."""

    registered_models: list[RegisteredSummary] = field("the registered models, by name")


class RegisteredVersion(Answer):
    """A version of a registered model."""

    name: str = field("the name", example="churn")
    version: int = field("the version, from 1")
    model_id: str = field("id of its model", example="mdl_01M8BJAJCVF2WHNP7BNYZN1BVC")
    created_at: str = field("time at which it was registered, UTC")


class VersionOfName(Answer):
    """A version of the registered model that it is listed under."""

    version: int = field("the version, from 1")
    model_id: str = field("id of its model", example="mdl_01M8BJAJCVF2WHNP7BNYZN1BVC")
    created_at: str = field("time at which it was registered, UTC")
    job_id: str = field("id of the job that made the model; empty if that is not known")


class RegisteredModel(Answer):
    """A registered model with its versions."""

    name: str = field("the name", example="churn")
    created_at: str = field("time at which its first version was registered, UTC")
    versions: list[VersionOfName] = field("its versions, the newest first")
    aliases: list[Alias] = field("its aliases")
    moves: list[AliasMove] = field("the last hundred moves of its aliases, the newest first")
