"""``python -m api`` is the ``ecntwin`` command."""

from __future__ import annotations

from api.cli import main

main()
