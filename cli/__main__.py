"""``python -m cli`` is the ``ecntwin`` command."""

from __future__ import annotations

from cli.main import main

main()
