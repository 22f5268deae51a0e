"""Which workers the settings ask for, and what is wrong with settings that ask for none there can be."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from service.tuning.workers import check_backend, search_workers
from settings.errors import SettingsError
from settings.load import load_settings
from settings.twin import SearchSection
from tests.counterparts.certificates import Authority
from twin.workers.dask import DaskWorkers
from twin.workers.fallback import FallbackWorkers
from twin.workers.pool import ProcessWorkers

SCHEDULER = "tcp://127.0.0.1:8786"


def search(**given: Any) -> SearchSection:
    return SearchSection(**given)


def test_processes_unless_said_otherwise() -> None:
    workers = search_workers(search(workers=3))
    assert isinstance(workers, ProcessWorkers)
    assert workers.n_workers == 3


def test_a_cluster_where_it_is_asked_for_and_nothing_is_connected_to() -> None:
    asked = search(backend="dask", dask_scheduler=SCHEDULER)
    assert isinstance(search_workers(asked), DaskWorkers)
    both = search_workers(asked.model_copy(update={"dask_fallback": True}))
    assert isinstance(both, FallbackWorkers)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"backend": "dask"}, "backend dask needs dask_scheduler"),
        ({"backend": "dask", "dask_scheduler": "scheduler:8786"}, "tcp://host:port"),
        ({"backend": "dask", "dask_scheduler": "tcp://scheduler"}, "tcp://host:port"),
        ({"backend": "dask", "dask_scheduler": "tcp://scheduler:99999"}, "tcp://host:port"),
        ({"backend": "dask", "dask_scheduler": "tcp://a b:1"}, "tcp://host:port"),
        ({"backend": "dask", "dask_scheduler": "tls://scheduler:8786"}, "needs dask_ca, dask_certificate"),
        ({"dask_scheduler": "tls://s:1", "dask_ca": "a", "dask_key": "b"}, "needs dask_ca, dask_certificate"),
        ({"dask_scheduler": SCHEDULER, "dask_ca": "a"}, "go with a scheduler at tls://"),
        ({"backend": "spark"}, "'processes' or 'dask'"),
        ({"dask_timeout_s": 0}, "greater than 0"),
    ],
)
def test_settings_that_make_no_sense(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        search(**given)


@pytest.mark.parametrize("host", ["dask.example", "192.0.2.1", "[2001:db8::1]", "dask_scheduler-0.dask"])
def test_addresses_of_schedulers(host: str) -> None:
    assert search(dask_scheduler=f"tcp://{host}:8786").dask_scheduler == f"tcp://{host}:8786"


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.tuning.workers.find_spec", lambda name: None)
    check_backend(search())
    with pytest.raises(SettingsError, match=r"it needs the extra ecntwin\[dask\]"):
        check_backend(search(backend="dask", dask_scheduler=SCHEDULER))


def test_certificates_lie_beside_the_settings_and_are_looked_at(tmp_path: Path) -> None:
    authority = Authority("fabric")
    signed = authority.signed("127.0.0.1")
    (tmp_path / "ca.pem").write_bytes(authority.certificate)
    (tmp_path / "service.pem").write_bytes(signed.certificate)
    (tmp_path / "service.key").write_bytes(signed.key)
    settings = tmp_path / "ecntwin.yaml"
    settings.write_text(
        "search:\n  backend: dask\n  dask_scheduler: tls://127.0.0.1:8786\n"
        "  dask_ca: ca.pem\n  dask_certificate: service.pem\n  dask_key: service.key\n",
        "utf-8",
    )
    given = load_settings(settings).search
    assert given.dask_ca == tmp_path / "ca.pem"
    check_backend(given)
    (tmp_path / "service.key").write_bytes(b"no key")
    with pytest.raises(SettingsError, match="they are PEM files"):
        check_backend(given)
    (tmp_path / "ca.pem").unlink()
    with pytest.raises(SettingsError, match="correct the paths or the files"):
        search_workers(given)


def test_dask_logs_as_the_service_does(caplog: pytest.LogCaptureFixture) -> None:
    search_workers(search(backend="dask", dask_scheduler=SCHEDULER))
    logger = logging.getLogger("distributed.client")
    assert not logger.handlers
    logger.warning("heard")
    logger.info("not heard")
    assert [record.message for record in caplog.records] == ["heard"]


def test_nothing_imports_dask_unless_it_is_asked_for() -> None:
    code = "import sys, service.service, service.tuning.workers; sys.exit('distributed' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
