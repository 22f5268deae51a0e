"""Asks a person before something is set: on standard error, and never where nobody is there to answer."""

from __future__ import annotations

import sys

import typer
from rich.console import Console

from cli.errors import FAILED
from settings.errors import InputError


def somebody_there() -> bool:
    """Whether a person could answer."""
    return sys.stdin.isatty()


def require_answer(command: str) -> None:
    """Raises ``InputError`` where nobody is there to say yes."""
    if not somebody_there():
        raise InputError(
            f"ecntwin {command}",
            "no terminal to ask at",
            "what it sets is confirmed by a person, or by --yes",
            "add --yes where this is meant",
        )


def confirm(question: str) -> None:
    """Goes on where the answer is yes, and else ends the command with exit code 1."""
    if not typer.confirm(question, err=True):
        screen_for_asking().print("Nothing was done.")
        raise typer.Exit(FAILED)


def screen_for_asking() -> Console:
    """Standard error: what a question is about is no part of what the command answers."""
    return Console(stderr=True, highlight=False)
