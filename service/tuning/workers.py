"""Makes the workers that rounds run on, from the settings; imports Dask only where it is configured."""

from __future__ import annotations

import logging
import os
from importlib.util import find_spec

from settings.errors import SettingsError
from settings.twin import SearchSection
from twin.workers.fallback import FallbackWorkers
from twin.workers.pool import Workers, make_workers

_log = logging.getLogger("ecntwin.search")

# loggers to which Dask attaches its own handler and format
_LOGGERS_OF_DASK = (
    "bokeh",
    "distributed",
    "distributed.client",
    "distributed.gc",
    "tornado",
    "tornado.application",
)


def search_workers(search: SearchSection) -> Workers:
    """Local processes, a Dask cluster, or both, not started and not connected. Raises ``SettingsError``."""
    here = make_workers(search.workers or max(2, os.cpu_count() or 2), niceness=search.niceness)
    if search.backend == "processes":
        return here
    cluster = _dask_workers(search)
    return FallbackWorkers(cluster, here, warn=_log.warning) if search.dask_fallback else cluster


def check_backend(search: SearchSection) -> None:
    """Raises ``SettingsError`` where the configured workers cannot be made."""
    if search.backend == "dask":
        _dask_workers(search).close()


def _dask_workers(search: SearchSection) -> Workers:
    if find_spec("distributed") is None:
        raise SettingsError(
            "settings search.backend",
            "'dask'",
            "it needs the extra ecntwin[dask]",
            "install that (in a clone: pip install --require-hashes --no-deps -r requirements/dask.txt), "
            "or set it to processes",
        )
    assert search.dask_scheduler is not None  # validated with the settings
    from twin.workers.dask import DaskWorkers
    from twin.workers.dask_connection import TlsFiles

    tls = None
    if search.dask_ca and search.dask_certificate and search.dask_key:
        tls = TlsFiles(search.dask_ca, search.dask_certificate, search.dask_key)
        try:
            tls.check()
        except OSError as error:  # ssl.SSLError included
            raise SettingsError(
                "settings search.dask_ca, dask_certificate, dask_key",
                str(error),
                "they are PEM files: the CA, this service's certificate, and its key",
                "correct the paths or the files",
            ) from error
    _use_our_logging()
    return DaskWorkers(
        search.dask_scheduler,
        tls=tls,
        timeout_s=search.dask_timeout_s,
        silence_s=search.dask_silence_s,
        warn=_log.warning,
    )


def _use_our_logging() -> None:
    for name in _LOGGERS_OF_DASK:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(logging.WARNING)
