"""The repository's promises about itself: versions agree, links lead somewhere, copied paths exist."""

from __future__ import annotations

import gzip
import json
import re
import runpy
import shlex
import subprocess
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
MARKDOWN = sorted(
    path
    for pages in ("*.md", "docs/**/*.md", "bench/*.md", "deploy/*.md", "examples/websearch-16/*.md")
    for path in ROOT.glob(pages)
)


def read(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def changelog_disagreement(pyproject: str, changelog: str) -> str | None:
    found: str | None = runpy.run_path(str(ROOT / "scripts/check-changelog.py"))["disagreement"](
        pyproject, changelog
    )
    return found


def tracked_files() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout: nothing says which files belong to the project")
    return [ROOT / name for name in done.stdout.decode().split("\0") if name]


def test_the_changelog_begins_with_the_version_of_the_package() -> None:
    assert changelog_disagreement(read("pyproject.toml"), read("CHANGELOG.md")) is None


@pytest.mark.parametrize(
    ("changelog", "says"),
    [
        ("# Changelog\n\n## [Unreleased]\n", "no heading"),
        ("## [0.2.0] - 2026-01-31\n", "newest is 0.2.0"),
        ("## [Unreleased]\n\n## [0.1.0]\n", "dated nothing"),
        ("## [0.1.0] - soon\n", "dated soon"),
    ],
)
def test_a_changelog_that_disagrees_is_found(changelog: str, says: str) -> None:
    found = changelog_disagreement('[project]\nversion = "0.1.0"\n', changelog)
    assert found is not None
    assert says in found


def github_anchor(heading: str) -> str:
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower().replace("`", ""))
    return kept.replace(" ", "-")


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    prose = re.sub(r"^ *```.*?^ *```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^    .*$", "", prose, flags=re.MULTILINE)
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        aimed = page if not name else (page.parent / name)
        if not aimed.exists():
            broken.append(target)
        elif anchor and aimed.suffix == ".md":
            headings = re.findall(r"^#+ (.*)$", aimed.read_text("utf-8"), flags=re.MULTILINE)
            if anchor not in map(github_anchor, headings):
                broken.append(target)
    assert not broken


def test_every_page_of_docs_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    to_visit = [ROOT / "README.md"]
    while to_visit:
        page = to_visit.pop()
        if page in reached or not page.exists():
            continue
        reached.add(page)
        if page.suffix == ".md":
            targets = re.findall(r"\]\(([^)\s#]+)", page.read_text("utf-8"))
            to_visit += [(page.parent / target).resolve() for target in targets if ":" not in target]
            to_visit += [
                folder_page for target in targets for folder_page in (page.parent / target).glob("README.md")
            ]
    # The list of decisions is the folder itself.
    pages = {page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "adr"}
    assert pages <= reached


def test_files_that_pages_name_are_there() -> None:
    rooms = "api|bench|cli|deploy|lab|lossless|nics|rollout|scripts|service|settings|store"
    rooms += "|switches|telemetry|tests|twin|web"
    named = re.compile(rf"`((?:{rooms})/[\w./-]*\.[a-z]+)`")
    others = ("adr", "switches")  # what was so when it was decided; files of vendors
    pages = [page for page in MARKDOWN if page.parent.name not in others and page.name != "CHANGELOG.md"]
    missing = {
        (page.name, name)
        for page in pages
        for name in named.findall(page.read_text("utf-8"))
        if not (ROOT / name).exists() and not re.search("[A-Z]{4}", name)  # NAME is the reader's
    }
    assert not missing


def test_a_folder_is_seen_in_one_look() -> None:
    entries: dict[Path, set[str]] = {}
    for path in tracked_files():
        inside = path.relative_to(ROOT)
        for folder in list(inside.parents)[:-1]:
            entries.setdefault(folder, set()).add(inside.relative_to(folder).parts[0])
    data = (Path("tests/data"), Path("api/reference"), Path("api/dashboard"), Path("web"))
    long = {
        str(folder): len(found)
        for folder, found in entries.items()
        if len(found) > 20 and not any(folder.is_relative_to(one) for one in data)
    }
    assert not long


def test_scripts_test_all_finds_the_kernels_own_tests() -> None:
    """It looks for them in one folder: the others' imports take longer than the tests."""
    marked = re.compile(r"mark\.kernels\b")
    own = ROOT / "tests" / "unit" / "twin"
    found = [path for path in (ROOT / "tests").rglob("*.py") if marked.search(path.read_text("utf-8"))]
    assert {path for path in found if not path.is_relative_to(own)} <= {Path(__file__)}


def test_metrics_are_declared_in_two_modules() -> None:
    declaration = re.compile(r"\b(?:counter|gauge|histogram|Counter|Gauge|Histogram|Info)\(\s*f?\"")
    found = {
        path.relative_to(ROOT).as_posix()
        for path in tracked_files()
        if path.suffix == ".py"
        and path.relative_to(ROOT).parts[0] in ("api", "cli", "lab", "service", "settings", "store")
        and declaration.search(path.read_text("utf-8"))
    }

    assert found == {"service/metrics.py", "service/network_metrics.py"}


def test_no_file_names_a_path_of_the_machine_it_was_written_on() -> None:
    machine_path = re.compile(rb"(?:^|[^A-Za-z0-9_.])/(?:work|home|Users|farm)/[A-Za-z0-9_]")
    found = [
        str(path.relative_to(ROOT))
        for path in tracked_files()
        if path.is_file()
        and path.suffix != ".gz"
        and path != Path(__file__)
        and machine_path.search(path.read_bytes())
    ]
    assert not found


def test_the_readme_is_short_and_names_the_commands() -> None:
    readme = read("README.md")
    assert len(readme.splitlines()) <= 120
    assert re.findall(r"^make (?:demo|test)$", readme, flags=re.MULTILINE) == ["make demo", "make test"]


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", read("Makefile"), flags=re.MULTILINE))


def test_make_help_lists_every_target() -> None:
    listed = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert set(re.findall(r"^  make (\w+)", listed.stdout, flags=re.MULTILINE)) == make_targets()
    assert {"demo", "test", "check", "bench", "serve", "format", "clean", "help"} <= make_targets()


def test_every_make_command_in_the_documents_is_a_target() -> None:
    pages = "\n".join(page.read_text("utf-8") for page in MARKDOWN)
    assert set(re.findall(r"`make ([a-z]+)", pages)) <= make_targets()


@pytest.mark.parametrize(
    "script", ["setup", "check", "test", "fuzz", "bench", "demo", "system-packages", "../.ci/run"]
)
def test_scripts_are_executable_and_parse(script: str) -> None:
    path = ROOT / "scripts" / script
    assert path.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", str(path)], check=True)


def docker_instructions() -> list[tuple[str, str]]:
    joined = re.sub(r"^\s*#.*\n", "", read("Dockerfile"), flags=re.MULTILINE).replace("\\\n", " ")
    parts = [line.partition(" ") for line in joined.splitlines() if line.strip()]
    return [(word, rest.strip()) for word, _, rest in parts]


def docker_sources() -> list[str]:
    copies = [shlex.split(rest) for word, rest in docker_instructions() if word == "COPY"]
    return [source for copy in copies if not copy[0].startswith("--from") for source in copy[:-1]]


def test_the_dockerfile_copies_what_exists_and_is_not_ignored() -> None:
    kept = {line[1:] for line in read(".dockerignore").splitlines() if line.startswith("!")}
    assert docker_sources()
    for source in docker_sources():
        assert (ROOT / source).exists(), source
        assert source in kept, f"{source} is copied but .dockerignore leaves it out"


def test_the_dockerfile_copies_every_package_of_the_wheel() -> None:
    project = tomllib.loads(read("pyproject.toml"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = [
        *wheel["packages"],
        *wheel["force-include"],
        project["project"]["readme"],
        *project["project"]["license-files"],
    ]
    for path in needed:
        assert any(path == source or path.startswith(f"{source}/") for source in docker_sources()), path


def test_the_image_runs_as_nobody_in_particular_without_a_shell() -> None:
    last_stage = docker_instructions()
    last_from = max(index for index, (word, _) in enumerate(last_stage) if word == "FROM")
    words = dict(last_stage[last_from:])
    assert int(words["USER"].split(":")[0]) > 0
    assert json.loads(words["ENTRYPOINT"]) == ["ecntwin"]
    assert isinstance(json.loads(words["CMD"]), list)
    assert "/healthz" in words["HEALTHCHECK"]


def test_the_example_is_the_reference_problem(example: Path, reference: Path) -> None:
    def load(path: Path) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return loaded

    scenario = load(example / "scenario.json")
    assert scenario["topology"] == load(example / "topology.json")
    assert scenario | {"flows_csv": ""} == load(reference / "websearch-16.scenario.json") | {"flows_csv": ""}
    flows = [
        gzip.decompress((folder / name).read_bytes())
        for folder, name in ((example, scenario["flows_csv"]), (reference, "websearch-16.flows.csv.gz"))
    ]
    assert flows[0] == flows[1]


def locked_for(purpose: str) -> dict[str, Requirement]:
    """What requirements/PURPOSE.txt installs here, by name, with what lies below it."""
    found: dict[str, Requirement] = {}
    for entry in re.split(r"\n(?=\S)", read(f"requirements/{purpose}.txt").strip()):
        line, *hashes = entry.split(" \\\n")
        if below := re.fullmatch(r"-r (\w+)\.txt", line):
            found |= locked_for(below[1])
            continue
        assert hashes, f"{line} has no hash"
        assert all(re.fullmatch(r" +--hash=sha256:[0-9a-f]{64}", one) for one in hashes), line
        requirement = Requirement(line)
        assert [one.operator for one in requirement.specifier] == ["=="], line
        if requirement.marker is None or requirement.marker.evaluate():
            found[canonicalize_name(requirement.name)] = requirement
    return found


@pytest.mark.parametrize("purpose", ["run", "dask", "dev", "bench"])
def test_the_lock_holds_what_pyproject_wants_and_nothing_more(purpose: str) -> None:
    document = tomllib.loads(read("pyproject.toml"))
    extras = document["project"]["optional-dependencies"]
    wanted = [*document["build-system"]["requires"], *document["project"]["dependencies"]]
    for name in [] if purpose == "run" else list(extras)[: list(extras).index(purpose) + 1]:
        wanted += extras[name]
    locked = locked_for(purpose)
    waiting = [(Requirement(one), "") for one in wanted]
    reached: set[tuple[str, str]] = set()
    all_installed = True
    while waiting:
        requirement, for_extra = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": for_extra}):
            continue
        name = canonicalize_name(requirement.name)
        assert name in locked, f"{requirement} is not locked: run scripts/lock.py"
        (pin,) = locked[name].specifier
        assert requirement.specifier.contains(pin.version), f"{pin} for {requirement}: run scripts/lock.py"
        for extra in {"", *requirement.extras} - {extra for of, extra in reached if of == name}:
            reached.add((name, extra))
            try:
                waiting += [(Requirement(one), extra) for one in requires(name) or []]
            except PackageNotFoundError:  # of a purpose that is not installed here
                all_installed = False
    if all_installed:
        assert locked.keys() == {name for name, _ in reached}, "some are needed no more: run scripts/lock.py"
