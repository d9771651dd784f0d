"""Make, list and revoke the tokens that let others use the service."""

import argparse
import sys
from pathlib import Path

from streamsvm.service.errors import ServiceError
from streamsvm.service.records.database import Database
from streamsvm.service.records.opening import open_store
from streamsvm.service.records.tokens import SCOPES, Tokens, expiry
from streamsvm.service.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `streamsvm token`, and their options, to the parser."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    new = actions.add_parser("new", help="Print a new token; it is not shown again.")
    new.add_argument("--scope", choices=SCOPES, default="submit", help="each allows the ones before (default: submit)")
    new.add_argument("--expires", metavar="WHEN", help="12h, 30d, 2w or a date in UTC (default: never)")
    revoke = actions.add_parser("revoke", help="Delete a token.")
    for action in (new, revoke):
        action.add_argument("name", help="name of the token, such as its user's")
    for action in (new, revoke, actions.add_parser("ls", help="List the tokens.")):
        action.add_argument("--data-dir", type=Path, help="data directory of the service (default: ./data)")


def run(options: argparse.Namespace) -> int:
    """Make, delete or print tokens of a data directory; a service may be running on it. Return the exit code."""
    settings = Settings.from_environment(options.data_dir)
    if options.action != "new" and not settings.database.exists():
        where = settings.data_dir
        raise ServiceError("no_service", f"{where} is no data directory: it has no tokens", "Name it: --data-dir.")
    is_new = not settings.database.exists()
    open_store(settings)
    tokens = Tokens(Database(settings.database))
    if options.action == "new":
        print(tokens.new(options.name, options.scope, options.expires and expiry(options.expires)))
        if is_new:
            print(f"{settings.data_dir} is a new data directory: name it to serve by --data-dir", file=sys.stderr)
    elif options.action == "revoke":
        tokens.revoke(options.name)
    else:
        for token in tokens.list():
            expires, used = (token[name] or "never" for name in ("expires_at", "last_used_at"))
            line = (
                f"{token['name']:20} {token['scope']:8} made {token['created_at']}  expires {expires:24}  used {used}"
            )
            print(line)
    return 0
