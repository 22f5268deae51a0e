"""The repository's promises about itself: versions agree, links lead somewhere, copied paths exist."""

from __future__ import annotations

import gzip
import json
import re
import runpy
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
MARKDOWN = sorted(
    path
    for folder in ("", "docs", "docs/adr", "docs/switches", "bench", "deploy", "examples/websearch-16")
    for path in (ROOT / folder).glob("*.md")
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


def test_constraints_pin_only_what_pyproject_may_install() -> None:
    pins = re.findall(r"^([A-Za-z0-9_.-]+)==\S+$", read("constraints.txt"), flags=re.MULTILINE)
    normal = [re.sub(r"[-_.]+", "-", pin).lower() for pin in pins]
    assert len(normal) == len(set(normal))
    project = tomllib.loads(read("pyproject.toml"))["project"]
    wanted = [
        *project["dependencies"],
        *(one for extra in project["optional-dependencies"].values() for one in extra),
    ]
    names = {re.sub(r"[-_.]+", "-", re.split(r"[^A-Za-z0-9_.-]", one)[0]).lower() for one in wanted}
    assert names <= set(normal), "pin these too: run the tests with them, then add what pip freeze says"
