"""Trains learners on the packet fabric: the workloads and seeds that no evaluation uses.

An episode is a part of a training workload under a seed of its own, from ``FIRST_SEED`` on. What training
needs to go on is kept after each; the policy is written at the end.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from bench.rivals.arena import play
from bench.rivals.observe import BUDGETS
from bench.rivals.scenarios import Scenario, scenario_named
from bench.rivals.tuners import ai_ecn
from bench.rivals.tuners.agents import Mode
from bench.rivals.tuners.learned import LEARNERS
from bench.rivals.tuners.policy import ABOUT, FOLDER, VERSION, Policy, read
from twin.errors import ParameterError

WORKLOADS = ("websearch-20", "websearch-40", "websearch-60", "hadoop-40", "incast-8", "incast-16")
FIRST_SEED = 1_000
WANTED = 200_000  # transitions a switch
EPISODE_S = 0.052  # four of PET's rollouts and a little
BUDGET = BUDGETS["box"]
SCENES = 6  # of AI-ECN's model: one of each workload
_CHECKPOINT = "checkpoint.npz"


def episodes(first: int = 0) -> Iterator[tuple[Scenario, int]]:
    """Scenario and seed of each episode: the workloads in turn, then the next seed."""
    for number in itertools.count(first):
        name = WORKLOADS[number % len(WORKLOADS)]
        yield (
            replace(scenario_named(name), duration_s=EPISODE_S),
            FIRST_SEED + number // len(WORKLOADS),
        )


class Kept:
    """What a training keeps in its folder: arrays, how many episodes are done, the CPU they took."""

    def __init__(self, folder: Path, name: str, seed: int) -> None:
        """Raises ``ParameterError`` where the folder holds another training."""
        self._path = folder / _CHECKPOINT
        self._is = {"learner": name, "seed": seed, "version": VERSION}
        self.arrays: dict[str, Any] = {}
        self.episodes, self.cpu_s = 0, 0.0
        if self._path.exists():
            where, remedy = f"training in {folder.name}", "give another folder, or delete it"
            about, self.arrays = read(self._path, where, remedy)
            self.episodes, self.cpu_s = about.pop("episodes", 0), about.pop("cpu_s", 0.0)
            if about != self._is:
                raise ParameterError(where, f"{about}", f"it must be {self._is} to go on", remedy)

    def save(self) -> None:
        """Replaces the file as a whole, so that ending the process loses one episode at most."""
        about = {**self._is, "episodes": self.episodes, "cpu_s": self.cpu_s}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        part = self._path.with_name(f"part-{_CHECKPOINT}")
        np.savez(part, **{ABOUT: np.array(json.dumps(about)), **self.arrays})
        part.replace(self._path)


def train_learner(
    name: str, kept: Kept, *, transitions: int, seed: int, episode_limit: int, console: Console
) -> tuple[Policy, dict[str, Any]]:
    """Trains until each switch has had ``transitions``, or so many episodes are done; the policy."""
    switches = len(scenario_named(WORKLOADS[0]).topology.switch_names)
    own = {"switches": switches} if name == "acc" else {}
    learner = LEARNERS[name](Mode.OFFLINE, first_seed=seed, **own)
    if kept.episodes:
        learner.resume(kept.arrays)
    for scenario, of_packets in episodes(kept.episodes):
        if learner.transitions >= transitions * switches or kept.episodes >= episode_limit:
            break
        begun_s = time.process_time()
        played = play(scenario, learner, of_packets, BUDGET)
        kept.cpu_s += time.process_time() - begun_s
        kept.episodes += 1
        kept.arrays = learner.checkpoint()
        kept.save()
        console.print(
            f"{name} episode {kept.episodes}: {scenario.name} seed {of_packets}, "
            f"J {sum(one.j for one in played.phases):.3f}, "
            f"{learner.transitions / switches:,.0f} of {transitions:,} transitions a switch, "
            f"{kept.cpu_s:.0f} s of CPU"
        )
    policy = replace(learner.trained(), kind=name)
    return policy, {
        "transitions": learner.transitions,
        "switches": switches,
        "transitions_per_switch": round(learner.transitions / switches),
        "transitions_wanted_per_switch": WANTED,
        "intervals": learner.steps,
    }


def train_model(
    kept: Kept, *, seed: int, episode_limit: int, console: Console
) -> tuple[Policy, dict[str, Any]]:
    """Fits AI-ECN's model: each scene is run under every setting, the one with the best J is its label."""
    settings = len(ai_ecn.SETTINGS)
    scenes = min(SCENES, episode_limit)
    for number, (scenario, of_packets) in enumerate(itertools.islice(episodes(), scenes)):
        for setting in range(settings):
            run = number * settings + setting
            if run < kept.episodes:
                continue
            begun_s = time.process_time()
            recorder = ai_ecn.Recorder(setting)
            played = play(scenario, recorder, of_packets, BUDGET)
            kept.cpu_s += time.process_time() - begun_s
            kept.arrays[f"rows.{run}"] = recorder.rows
            kept.arrays[f"j.{run}"] = np.array(sum(one.j for one in played.phases))
            kept.episodes += 1
            kept.save()
            console.print(
                f"{ai_ecn.KIND} run {run + 1} of {scenes * settings}: {scenario.name} seed {of_packets}, "
                f"J {float(kept.arrays[f'j.{run}']):.3f}, {kept.cpu_s:.0f} s of CPU"
            )
    found, labels = [], []
    for number in range(scenes):
        runs = range(number * settings, (number + 1) * settings)
        best = int(np.argmax([float(kept.arrays[f"j.{run}"]) for run in runs]))
        rows = np.concatenate([kept.arrays[f"rows.{run}"] for run in runs])
        found.append((rows, best))
        labels.append(best)
    begun_s = time.process_time()
    policy = ai_ecn.fit(found, seed)
    kept.cpu_s += time.process_time() - begun_s
    agreed = ai_ecn.agreement(policy, found)
    return policy, {
        "transitions": agreed.pop("rows"),
        "transitions_are": "windows of a busy queue under one of the settings",
        "labels": [list(ai_ecn.SETTINGS[one]) for one in labels],
        **agreed,
    }


def train(given: argparse.Namespace, console: Console, *, commit: str, default_folder: Path) -> None:
    """Trains or goes on, and writes the policy; raises ``ParameterError`` for wrong options."""
    for option, value in (("--transitions", given.transitions), ("--episodes", given.episodes)):
        if value is not None and value < 1:
            raise ParameterError(option, str(value), "it counts from 1", "give such as 100")
    folder = given.into or default_folder / given.learner
    kept = Kept(folder, given.learner, given.seed)
    limit = given.episodes or 10**9
    if given.learner == ai_ecn.KIND:
        policy, seen = train_model(kept, seed=given.seed, episode_limit=limit, console=console)
    else:
        policy, seen = train_learner(
            given.learner,
            kept,
            transitions=given.transitions or WANTED,
            seed=given.seed,
            episode_limit=limit,
            console=console,
        )
    seeds = FIRST_SEED + (kept.episodes - 1) // len(WORKLOADS)
    if given.learner == ai_ecn.KIND:
        seeds = FIRST_SEED + (min(SCENES, limit) - 1) // len(WORKLOADS)
    provenance = {
        "commit": commit,
        "workloads": WORKLOADS,
        "seeds": [FIRST_SEED, seeds],
        "first_seed": given.seed,
        "episodes": kept.episodes,
        "episode_s": EPISODE_S,
        "budget": BUDGET.name,
        "cpu_s": round(kept.cpu_s),
        **seen,
    }
    path = given.policy or FOLDER / f"{given.learner}.npz"
    replace(policy, provenance=provenance).save(path)
    console.print(f"written to {path.name}: {json.dumps(provenance)}")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    training = commands.add_parser("train", help="train a learner, or go on with its training")
    training.add_argument("learner", choices=(*LEARNERS, ai_ecn.KIND))
    training.add_argument(
        "--transitions", type=int, help=f"until each switch had so many (default: {WANTED})"
    )
    training.add_argument("--episodes", type=int, help="stop after so many, whatever they held")
    training.add_argument("--seed", type=int, default=0, help="of weights and exploration (default: 0)")
    training.add_argument("--into", type=Path, help="folder of what it needs to go on")
    training.add_argument("--policy", type=Path, help="file to write (default: the one that tuners load)")
