"""The kernel cache: a folder no stale kernel survives, wherever it may be written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from twin import jit

ROOT = Path(__file__).resolve().parents[4]


def test_the_digest_follows_every_kernel_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "twin"
    shutil.copytree(ROOT / "twin", package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(jit, "__file__", str(package / "jit.py"))
    before = jit.kernel_digest()
    seen = {before}
    for name in ("replay/_queues.py", "replay/layout.py", "fluid/_math.py", "probe/_draws.py", "jit.py"):
        source = package / name
        source.write_text(source.read_text("utf-8") + "\n# changed\n", "utf-8")
        seen.add(jit.kernel_digest())
    assert len(seen) == 6
    (package / "search.py").write_text("# no kernel\n", "utf-8")
    assert jit.kernel_digest() in seen


def test_the_cache_is_where_it_was_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "asked"))
    assert jit._cache_folder() == tmp_path / "asked" / f"kernels-{jit.kernel_digest()}"
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    assert jit._cache_folder() == tmp_path / "user" / "ecntwin" / f"kernels-{jit.kernel_digest()}"


def test_a_place_that_cannot_be_made_falls_back_to_one_of_the_same_digest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("", "utf-8")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(in_the_way / "below"))
    monkeypatch.setattr(jit.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = jit._cache_folder()
    assert folder.is_relative_to(tmp_path)
    assert folder.name == f"kernels-{jit.kernel_digest()}"


def test_a_warm_cache_may_be_read_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    warm = tmp_path / "cache" / f"kernels-{jit.kernel_digest()}"
    warm.mkdir(parents=True)
    (warm / "kernel.nbc").write_bytes(b"compiled")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(warm.parent))
    monkeypatch.setattr(jit.os, "access", lambda *_: False)
    monkeypatch.setattr(jit.tempfile, "gettempdir", lambda: str(elsewhere))
    copy = jit._cache_folder()
    assert copy.is_relative_to(elsewhere)
    assert (copy / "kernel.nbc").read_bytes() == b"compiled"
    assert jit._cache_folder() == copy


def test_code_is_not_loaded_from_a_folder_others_can_write(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(jit.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(jit.tempfile, "tempdir", str(tmp_path))
    own = jit._own_temporary_folder()
    assert own == tmp_path / f"ecntwin-{os.getuid()}"
    own.chmod(0o777)
    assert jit._own_temporary_folder() != own


def test_a_cache_that_anybody_can_write_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wide = tmp_path / "cache" / f"kernels-{jit.kernel_digest()}"
    wide.mkdir(parents=True)
    (wide / "kernel.nbc").write_bytes(b"anybody's")
    wide.chmod(0o777)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(wide.parent))
    monkeypatch.setattr(jit.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = jit._cache_folder()
    assert folder.is_relative_to(tmp_path / f"ecntwin-{os.getuid()}")
    assert not folder.exists()


def test_a_cache_is_made_for_its_owner_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, no_umask: None
) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    folder = jit._cache_folder()
    made = [folder, *folder.parents[:2]]
    assert [one.stat().st_mode & 0o777 for one in made] == [0o700] * 3


def test_importing_twin_s_kernels_leaves_numba_their_folder() -> None:
    assert Path(numba.config.CACHE_DIR).name.endswith(jit.kernel_digest())


@pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="nothing is compiled")
def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text(
        "from twin.jit import inlined, kernel\n\n\n"
        "@inlined\ndef twice(x):\n    return 2.0 * x\n\n\n"
        "@kernel\ndef twice_and_one(x):\n    return twice(x) + 1.0\n",
        "utf-8",
    )
    code = (
        "from small import twice_and_one as f; assert f(3.0) == 7.0; "
        "print(sum(f.stats.cache_misses.values()), sum(f.stats.cache_hits.values()))"
    )
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])
    said = [
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for _ in range(2)
    ]
    assert said == ["1 0", "0 1"]
    assert [folder.name for folder in (tmp_path / "cache").iterdir()] == [f"kernels-{jit.kernel_digest()}"]
