"""A line and a list of mappings say the same; what means nothing is answered with where, what and which."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.twin.traffic.making import fingerprint
from twin.errors import ParameterError
from twin.traffic.base import Hosts
from twin.traffic.notation import (
    PATTERNS,
    Phase,
    Phases,
    host_numbers,
    pattern,
    read_traffic,
    whole_number,
)
from twin.traffic.patterns import AllToAll, ElephantsAndMice, Incast, Poisson, RingAllReduce
from twin.traffic.sizes import SizeDistribution
from twin.units import BYTES, SECONDS, quantity

ROOT = Path(__file__).resolve().parents[4]
WEBSEARCH = Poisson(load=0.6, sizes=SizeDistribution.named("websearch"))


@pytest.mark.parametrize(
    ("line", "phases"),
    [
        ("websearch:0.6", (Phase(0.0, WEBSEARCH),)),
        ("websearch:load=0.6@0", (Phase(0.0, WEBSEARCH),)),
        ("websearch:0.6, incast@20ms", (Phase(0.0, WEBSEARCH), Phase(0.02, Incast()))),
        ("incast:4@20ms..40ms", (Phase(0.02, Incast(fan_in=4), 0.04),)),
        (
            "incast@5ms,all-to-all:64KB:schedule=rounds,hadoop@1e-2",
            (
                Phase(0.005, Incast()),
                Phase(0.005, AllToAll(each_bytes=64_000, schedule="rounds")),
                Phase(0.01, Poisson(load=0.5, sizes=SizeDistribution.named("hadoop"))),
            ),
        ),
        (
            "ring-all-reduce:4MB:group-size=8:compute=1ms:placement=spread",
            (Phase(0.0, RingAllReduce(size_bytes=4e6, group_size=8, compute_s=1e-3, placement="spread")),),
        ),
        (
            "elephants-and-mice:0.1:elephant=inf:mice=websearch",
            (
                Phase(
                    0.0,
                    ElephantsAndMice(
                        mice_load=0.1, elephant_bytes=math.inf, mice=SizeDistribution.named("websearch")
                    ),
                ),
            ),
        ),
        (
            "poisson:0.2:sizes=64KB:senders=0..3:receivers=9",
            (
                Phase(
                    0.0,
                    Poisson(
                        load=0.2, sizes=SizeDistribution.constant(64e3), senders=(0, 1, 2, 3), receivers=(9,)
                    ),
                ),
            ),
        ),
    ],
)
def test_a_line_means_its_phases(line: str, phases: tuple[Phase, ...]) -> None:
    assert read_traffic(line) == Phases(phases)


def test_a_list_of_mappings_means_the_same_as_a_line() -> None:
    listed = [
        {"pattern": "websearch", "load": 0.6, "senders": [0, 1, 2]},
        {"pattern": "incast", "at_s": 0.02, "until": "40ms", "each_bytes": "64KB", "receiver": None},
    ]
    assert read_traffic(listed) == read_traffic("websearch:0.6:senders=0..2,incast:each=64KB@20ms..40ms")


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ("webseach:0.6", r"traffic\[0\] pattern: received 'webseach'; known: websearch, data-mining"),
        ("websearch:0.6,", r"traffic\[1\] pattern: known: "),
        ("", r"traffic\[0\] pattern: known: "),
        ("websearch:high", r"traffic\[0\] websearch load: received 'high'; it is a number"),
        ("websearch:0.6:rate=3", r"websearch: received option 'rate'; options: load, largest_bytes, senders"),
        ("websearch:sizes=hadoop", "received option 'sizes'"),
        ("websearch:0.6:0.7", r"traffic\[0\]: received 'websearch:0.6:0.7'; an item is NAME"),
        ("websearch:load=", r"an item is NAME"),
        ("websearch:", r"an item is NAME"),
        ("incast:8:fan_in=9", r"traffic\[0\]: received fan_in twice"),
        ("incast:each=1:each_bytes=2", "each_bytes twice"),
        ("incast:8.5", r"incast fan_in: received '8.5'; it is a whole number"),
        ("incast:each=64kb", r"each_bytes: received '64kb'; it is a number, which may end in B, KB, MB, GB"),
        ("incast@", r"at_s: received ''; it is a number, which may end in s, ms"),
        ("incast@1ms..", r"until_s: received ''"),
        ("incast@2ms..1ms", r"traffic\[0\]: phase until_s: received 0.001"),
        ("incast@-1ms", r"phase at_s: received -0.001"),
        ("incast,incast:0", r"traffic\[1\]: incast fan_in: received 0"),
        ("poisson:0.5", "poisson sizes: poisson needs it"),
        ("poisson:sizes=web", "poisson sizes: sizes: received 'web'; known: websearch"),
        ("poisson:sizes=-3", "poisson sizes: sizes constant: received -3.0"),
        ("websearch:senders=3..1", r"senders: received '3..1'; a range is first..last"),
        ("websearch:senders=a", "senders: received 'a'; it is a whole number"),
        (7, "traffic: received int; it is a line of text or a list of mappings"),
        (b"websearch", "traffic: received bytes"),
        ([], "traffic: it has no phase"),
        (["websearch"], r"traffic\[0\]: received str; an item is a mapping"),
        ([{"at_s": 0}], r"traffic\[0\] pattern: known: "),
        ([{"pattern": 3}], r"traffic\[0\] pattern: received 3"),
        ([{"pattern": "incast", "at": 0, "at_s": 1}], "at_s twice"),
        ([{"pattern": "incast", "at_s": None}], "at_s: received None"),
        ([{"pattern": "incast", "fan_in": True}], "fan_in: received True"),
        ([{"pattern": "incast", "fan_in": None}], "fan_in: received None"),
        ([{"pattern": "incast", "each_bytes": 10**400}], "each_bytes: received a number of over 300 digits"),
        ([{"pattern": "incast", 5: 6}], "received option '5'"),
        ([{"pattern": "all-to-all", "schedule": 5}], "schedule: received 5; it is a word"),
        ([{"pattern": "websearch", "senders": [0, "x"]}], r"senders\[1\]: received 'x'"),
    ],
)
def test_what_means_nothing_is_answered_in_a_sentence(document: Any, says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        read_traffic(document)


@pytest.mark.parametrize(
    ("text", "value"),
    [("20ms", 0.02), ("500us", 5e-4), ("500 µs", 5e-4), ("3", 3.0), (".5s", 0.5), ("7ns", 7e-9)],
)
def test_times_with_a_unit_are_the_same_number_as_without(text: str, value: float) -> None:
    assert quantity("time", text, SECONDS) == value


def test_quantities_of_other_kinds() -> None:
    assert quantity("size", "1.5MB", BYTES) == 1_500_000
    assert quantity("size", "inf", BYTES) == math.inf
    assert whole_number("count", " 12 ") == 12
    assert host_numbers("hosts", [3, "4"]) == (3, 4)
    assert host_numbers("hosts", 5) == (5,)
    for broken in ("1.2.3", "ms", "1 KB KB", "1e999999x", "nan", "0x10", None, [1]):
        with pytest.raises(ParameterError, match="it is a number"):
            quantity("size", broken, BYTES)


@pytest.mark.parametrize("name", PATTERNS)
def test_every_pattern_of_the_catalogue_makes_traffic_from_its_name_and_main_option(name: str) -> None:
    entry = PATTERNS[name]
    needed = {"sizes": 10_000} if "sizes" in entry.options else {}
    defaults = pattern(name, needed)
    value = getattr(defaults, entry.main_option)
    assert pattern(name, {**needed, entry.main_option: value}) == defaults
    assert len(defaults.traffic(Hosts(count=16), duration_s=5e-3, seed=1)) > 0


def documented() -> dict[str, set[str]]:
    """Pattern and options of every row of the table in docs/twin/traffic.md."""
    page = (ROOT / "docs/twin/traffic.md").read_text("utf-8")
    rows = re.findall(r"^\| (`[a-z-]+`(?:, `[a-z-]+`)*) \|.*?\| ([^|]*) \|$", page, re.MULTILINE)
    return {
        name: set(re.findall(r"`([a-z_]+)`", re.sub(r"\([^()]*\)", "", options)))
        for names, options in rows
        for name in re.findall(r"`([a-z-]+)`", names)
        if name in PATTERNS
    }


def test_the_page_lists_every_pattern_with_its_options() -> None:
    assert documented() == {name: set(entry.options) for name, entry in PATTERNS.items()}


LINE = (
    "websearch:0.3,incast@2ms..6ms,ring-all-reduce:group_size=4:compute=1ms:compute_jitter=0.1@4ms..6ms,"
    "all-to-all@6ms,elephants-and-mice@8ms,data-mining@9ms"
)


def test_the_same_seed_makes_the_same_traffic_in_another_process() -> None:
    def made(seed: int) -> str:
        return fingerprint(read_traffic(LINE).traffic(Hosts(count=16), duration_s=0.01, seed=seed))

    script = (
        "from tests.unit.twin.traffic import making, test_notation\n"
        "traffic = test_notation.read_traffic(test_notation.LINE)\n"
        "hosts = test_notation.Hosts(count=16)\n"
        "print(making.fingerprint(traffic.traffic(hosts, duration_s=0.01, seed=11)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": "77", "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.strip() == made(11)
    assert made(12) != made(11)
