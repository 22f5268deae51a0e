"""``ecntwin check-config``: validates the settings and shows every one of them, defaults included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from api.cli_output import print_json, print_line
from api.security import check_host
from api.service import load_topology
from api.settings_source import load_settings
from switches.registry import AdapterRegistry


def check_config(config: Path | None, *, as_json: bool) -> None:
    """Everything ``serve`` would check before it listens. Token hashes are shown shortened."""
    settings = load_settings(config)
    check_host(settings.server.host, settings.security)
    load_topology(settings.fabric.topology)
    AdapterRegistry.with_installed(lab_url=settings.push.lab_url).factory(settings.push.adapter)
    document: dict[str, Any] = settings.model_dump(mode="json")
    for token in document["security"]["tokens"]:
        token["sha256"] = f"{token['sha256'][:8]}…"
        token["scopes"] = sorted(token["scopes"])
    if as_json:
        print_json(document)
        return
    print_line(f"# {config or 'no settings file: defaults and environment'}; valid")
    print_line(yaml.safe_dump(document, sort_keys=False, allow_unicode=True).rstrip())
