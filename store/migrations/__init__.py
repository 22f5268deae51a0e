"""Migrations of databases written by earlier versions; a released migration is never changed."""

from __future__ import annotations

import logging
from importlib.resources import as_file, files

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from store.connection import NewerSchemaError

_log = logging.getLogger("ecntwin.storage")


def migrate(connection: Connection) -> None:
    """Applies missing migrations in the transaction of ``connection``. Raises ``NewerSchemaError``.

    PostgreSQL and SQLite both roll a failed migration back whole.
    """
    with as_file(files("store") / "migrations") as folder:
        config = Config()
        config.set_main_option("script_location", str(folder).replace("%", "%%"))
        config.set_main_option("path_separator", "os")
        known = ScriptDirectory.from_config(config)
        found = MigrationContext.configure(connection).get_current_revision()
        if found == known.get_current_head():
            return
        if found is not None and found not in {script.revision for script in known.walk_revisions()}:
            raise NewerSchemaError(found)
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        _log.info("tables are of revision %s now; before: %s", known.get_current_head(), found or "none")
