"""From an exception to an exit code and one sentence on standard error; traces go to the debug log only."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence

import typer

from settings.errors import ApiError, AwayError, RequestError, SettingsError
from settings.logging import quiet_libraries
from switches.errors import SwitchError
from telemetry.errors import TelemetryError
from twin.errors import SearchError, TwinError

DONE, FAILED, BAD_INPUT = 0, 1, 2
INTERRUPTED = 130
DEBUG_VARIABLE = "ECNTWIN_LOG__LEVEL"

_log = logging.getLogger("ecntwin.cli")


def run_to_exit_code(app: typer.Typer, arguments: Sequence[str] | None) -> int:
    """Runs the command; every ending is an exit code."""
    if os.environ.get(DEBUG_VARIABLE, "").lower() == "debug":
        logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
        quiet_libraries()
    command = typer.main.get_command(app)
    try:
        result = command.main(args=arguments, prog_name="ecntwin", standalone_mode=False)
    except typer.Exit as ending:
        return ending.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read us has seen enough; a second complaint at interpreter exit would follow otherwise.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except SystemExit as ending:  # completion's; uvicorn's where it cannot listen, and then it has said why
        return DONE if ending.code in (None, DONE) else FAILED
    except Exception as error:
        return _told(error)
    return result if isinstance(result, int) else DONE


def _told(error: Exception) -> int:
    _log.debug("where it failed", exc_info=error)
    code = exit_code(error)
    if code == FAILED and not isinstance(error, (SearchError, SwitchError, ApiError)):
        _say(
            f"{type(error).__name__}: {error}; this is a mistake of ecntwin's; "
            f"{DEBUG_VARIABLE}=debug shows where; please report it"
        )
    else:
        for sentence in (_sentence(error), *_further_mistakes(error)):
            _say(sentence)
    return code


def _further_mistakes(error: Exception) -> list[str]:
    """Of settings, a line each: who mends a file wants all of them."""
    return list(getattr(error, "__notes__", ())) if isinstance(error, SettingsError) else []


def exit_code(error: Exception) -> int:
    """2 where the caller can correct something, 1 where not."""
    if isinstance(error, (SearchError, SwitchError, RequestError, AwayError)):
        return FAILED
    if isinstance(error, (TwinError, TelemetryError, ApiError)):
        return BAD_INPUT
    usage_code = getattr(error, "exit_code", None)  # click's own errors carry it
    return BAD_INPUT if usage_code == BAD_INPUT else FAILED


def _sentence(error: Exception) -> str:
    format_message = getattr(error, "format_message", None)
    return str(format_message()) if callable(format_message) else str(error)


def _say(sentence: str) -> None:
    sys.stderr.write(f"ecntwin: {' '.join(sentence.split())}\n")
