"""What sonic-gnmi makes of requests, in front of a switch's redis: paths, tables, patches and their checks.

Written from sonic-net/sonic-gnmi (``gnmi_server/server.go``, ``sonic_data_client/mixed_db_client.go`` and
``json_client.go``, read at 5ec1c20) and from what the generic configuration updater of sonic-utilities does
with a patch. It shares no code with the adapter.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import grpc
import redis

from tests.counterparts.switches.gnmi_switch import RefusalError, Steps
from tests.counterparts.switches.sonic_switch import SonicSwitch
from tests.counterparts.switches.sonic_yang import SonicModels

Table = dict[str, dict[str, str]]
Patch = list[tuple[str, list[str], Any]]

_COLOURS = ("green", "yellow", "red")
_OLD_FIELDS = {"green_min_threshold", "green_max_threshold", "green_drop_probability"}


class SonicGnmi:
    """Databases by name, as in database_config.json.

    ``image_2025``: a patch may do nothing to WRED_PROFILE but replace three fields of AZURE_LOSSLESS.
    ``hides_asic``: the databases of hardware are not offered. ``stops_after``: so many moves are made, and
    the updater dies. ``saves`` counts how often the configuration was saved; ``moves`` are the rows written,
    in their order.
    """

    def __init__(self, switch: SonicSwitch) -> None:
        self.models = {"sonic-db": "0.1.0"}
        self.switch = switch
        self.image_2025 = False
        self.hides_asic = False
        self.stops_after: int | None = None
        self._models = SonicModels()
        self.saves = 0
        self.moves: list[tuple[str, dict[str, str] | None]] = []
        config, asic, counters = switch.databases
        self._databases = {
            "CONFIG_DB": (switch.server.client(config), "|"),
            "ASIC_DB": (switch.server.client(asic), ":"),
            "COUNTERS_DB": (switch.server.client(counters), ":"),
            "APPL_DB": (switch.server.client(0), ":"),
            "STATE_DB": (switch.server.client(switch.state_database), "|"),
        }

    def close(self) -> None:
        for client, _ in self._databases.values():
            client.close()

    def get(self, origin: str, path: Steps, kind: str) -> list[tuple[Steps, Any]]:
        if kind != "ALL":
            raise RefusalError(grpc.StatusCode.UNIMPLEMENTED, f"unsupported request type: {kind}")
        database, names = self._target(origin, path)
        client, separator = self._databases[database]
        if not names:
            raise RefusalError(grpc.StatusCode.NOT_FOUND, "this stand-in reads one table at a time")
        if len(names) == 1:
            found = self._table(client, names[0], separator, keyless=database == "COUNTERS_DB")
            if found is None:
                raise RefusalError(grpc.StatusCode.NOT_FOUND, f"Failed to find {database} {names[0]}")
            return [(path, found)] if found else []
        row: dict[str, str] = client.hgetall(separator.join(names[:2]))
        value: Any = row if len(names) == 2 else row.get(names[2])
        if not value:
            raise RefusalError(grpc.StatusCode.NOT_FOUND, f"No valid entry found for path {path}")
        return [(path, value)]

    def set(
        self,
        origin: str,
        delete: list[Steps],
        replace: list[tuple[Steps, Any]],
        update: list[tuple[Steps, Any]],
    ) -> None:
        targets = [
            self._target(origin, path) for path in [*delete, *(path for path, _ in [*replace, *update])]
        ]
        if any(database != "CONFIG_DB" for database, _ in targets):
            raise RefusalError(grpc.StatusCode.UNKNOWN, f"Set RPC does not support {targets[0][0]}")
        before = self._config()
        names = iter([names for _, names in targets])
        patch: Patch = [("remove", next(names), None) for _ in delete]
        patch = [step for step in patch if _there(before, step[1])]  # removing what is not there is ignored
        patch += [("replace", next(names), value) for _, value in replace]
        patch += [("add", next(names), value) for _, value in update]
        if not patch:
            return
        if self.image_2025:
            _check_as_2025(patch)
        wanted = deepcopy(before)
        for step in patch:
            _patched(wanted, *step)
        self._check(wanted)
        self._apply(before, wanted)
        self.saves += 1

    def _target(self, origin: str, path: Steps) -> tuple[str, list[str]]:
        if origin != "sonic-db":
            raise RefusalError(
                grpc.StatusCode.NOT_FOUND, f"origin {origin!r} goes to translib, which has no QoS"
            )
        names = [name for name, _ in path]
        if len(names) < 2:
            raise RefusalError(grpc.StatusCode.UNIMPLEMENTED, "Invalid elem length")
        hidden = self.hides_asic and names[0] != "CONFIG_DB"
        if names[0] not in self._databases or names[1] != "localhost" or hidden:
            raise RefusalError(grpc.StatusCode.NOT_FOUND, "Invalid target: ns , container ")
        return names[0], names[2:]

    def _table(
        self, client: redis.Redis, name: str, separator: str, *, keyless: bool
    ) -> dict[str, Any] | None:
        """Rows by key, or the one row of a table without keys; None where no key begins so."""
        if not client.keys(f"{name}*"):
            return None
        if keyless:
            return dict(client.hgetall(name))
        rows = {key: client.hgetall(key) for key in sorted(client.keys(f"{name}{separator}*"))}
        return {
            key.split(separator, 1)[1]: {field: value for field, value in row.items() if field != "NULL"}
            for key, row in rows.items()
        }

    def _config(self) -> dict[str, Table]:
        """CONFIG_DB as the updater sees it: rows by key by table."""
        client, _ = self._databases["CONFIG_DB"]
        tables: dict[str, Table] = {}
        for key in sorted(client.keys("*|*")):
            table, _, name = key.partition("|")
            row = {field: value for field, value in client.hgetall(key).items() if field != "NULL"}
            tables.setdefault(table, {})[name] = row
        return tables

    def _check(self, config: dict[str, Table]) -> None:
        rows = {f"{table}|{key}": row for table, rows in config.items() for key, row in rows.items()}
        wrong = [f"{key} {row}" for key, row in rows.items() if not _texts(row)]
        wrong = wrong or self._models.violations(rows)
        if wrong:
            raise RefusalError(grpc.StatusCode.UNKNOWN, f"Given patch is not valid: {'; '.join(wrong)}")

    def _apply(self, before: dict[str, Table], wanted: dict[str, Table]) -> None:
        """Move by move, each of which leaves it valid: new profiles, values, queues, removals."""
        profiles, new = before.get("WRED_PROFILE", {}), wanted.get("WRED_PROFILE", {})
        for name in sorted(new.keys() - profiles.keys()):
            self._write(f"WRED_PROFILE|{name}", {}, new[name])
        for name in sorted(new.keys() & profiles.keys()):
            self._edit(f"WRED_PROFILE|{name}", profiles[name], new[name])
        for key, row in sorted(wanted.get("QUEUE", {}).items()):
            self._write(f"QUEUE|{key}", before["QUEUE"].get(key, {}), row)
        for name in sorted(profiles.keys() - new.keys()):
            self._write(f"WRED_PROFILE|{name}", profiles[name], None)

    def _edit(self, key: str, row: dict[str, str], wanted: dict[str, str]) -> None:
        left = {field: value for field, value in wanted.items() if row.get(field) != value}
        while left:
            field = next(field for field, value in left.items() if _ordered(row | {field: value}))
            changed = row | {field: left.pop(field)}
            self._write(key, row, changed)
            row = changed
        self._write(key, row, wanted)

    def _write(self, key: str, row: dict[str, str], wanted: dict[str, str] | None) -> None:
        client, _ = self._databases["CONFIG_DB"]
        if self.stops_after is not None and len(self.moves) >= self.stops_after:
            raise RefusalError(grpc.StatusCode.UNKNOWN, "the host service has gone")
        if wanted is None:
            client.delete(key)
            self.moves.append((key, None))
            return
        changed = {field: value for field, value in wanted.items() if row.get(field) != value}
        gone = sorted(row.keys() - wanted.keys())
        if changed:
            client.hset(key, mapping=changed)
        if gone:
            client.hdel(key, *gone)
        if changed or gone:
            self.moves.append((key, changed))


def _there(config: dict[str, Any], names: list[str]) -> bool:
    node: Any = config
    for name in names:
        if name not in node:
            return False
        node = node[name]
    return True


def _patched(config: dict[str, Any], operation: str, names: list[str], value: Any) -> None:
    """One step of a patch (RFC 6902): what it is put into must be there, and what is replaced too."""
    node: Any = config
    for name in names[:-1]:
        if name not in node:
            raise RefusalError(grpc.StatusCode.UNKNOWN, f"member '{name}' not found in {list(node)[:3]}")
        node = node[name]
    if operation != "add" and names[-1] not in node:
        raise RefusalError(grpc.StatusCode.UNKNOWN, f"can't {operation} a non-existent object '{names[-1]}'")
    if operation == "remove":
        del node[names[-1]]
    else:
        node[names[-1]] = value


def _check_as_2025(patch: Patch) -> None:
    for operation, names, _ in patch:
        if names[0] == "WRED_PROFILE" and (
            operation != "replace" or names[1:2] != ["AZURE_LOSSLESS"] or names[-1] not in _OLD_FIELDS
        ):
            raise RefusalError(
                grpc.StatusCode.UNKNOWN,
                f"Modification of WRED_PROFILE table is illegal- validating function returned False: {names}",
            )


def _texts(row: Any) -> bool:
    return isinstance(row, dict) and all(isinstance(value, str | list) for value in row.values())


def _ordered(row: dict[str, str]) -> bool:
    return all(
        int(row.get(f"{colour}_min_threshold", "0")) <= int(row.get(f"{colour}_max_threshold", str(2**64)))
        for colour in _COLOURS
    )
