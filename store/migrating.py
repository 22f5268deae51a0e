"""Brings a database to this version's tables with Alembic; must not open one."""

from __future__ import annotations

import logging
from importlib.resources import as_file, files

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

_log = logging.getLogger("ecntwin.storage")


class NewerSchemaError(Exception):
    """The database was written by a later version; its text is that schema's revision."""


def migrate(connection: Connection) -> None:
    """Applies what is missing, in the transaction of ``connection``. Raises ``NewerSchemaError``.

    PostgreSQL and SQLite both undo a migration that fails whole.
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
