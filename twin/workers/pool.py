"""Runs batches of candidates in worker processes (joblib, loky), in this process, or in one reserved process.

Workers read a scenario once a round, from a file that tasks name. The pool outlives the round, so that a
worker imports and compiles its kernels once.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import Protocol, TypeVar

from joblib import Parallel, delayed
from joblib.externals.loky import ProcessPoolExecutor, get_reusable_executor
from joblib.externals.loky.process_executor import ShutdownExecutorError

from twin.engine import Engine
from twin.engine import engine as engine_named
from twin.errors import ParameterError, SearchError, TwinError, what_did_not_fit
from twin.prediction import Prediction
from twin.scenario import Scenario
from twin.senders.dcqcn import DcqcnParams
from twin.watermark import Setting

RETRIES = 2  # of tasks lost with their worker
_CHECK_PARENT_EVERY_S = 2.0
_IDLE_S, _RESERVED_IDLE_S = 3600.0, 1800.0  # until idle processes end


@lru_cache(maxsize=1)  # once a process
def end_with(parent: int) -> None:
    """Ends this process soon after ``parent``, its parent process, has ended: it may have been killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_CHECK_PARENT_EVERY_S)
        os._exit(1)

    threading.Thread(target=watch, name="ecntwin-orphan", daemon=True).start()


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Job(Protocol[T_co]):
    """Work for one worker; the job and its result are pickled."""

    @property
    def scenario_file(self) -> Path:
        """The file of the scenario, written by ``shipped``."""
        ...

    def run(self) -> T_co:
        """Runs the job in this process; raises only ``TwinError``."""
        ...


@dataclass(frozen=True, slots=True)
class Task:
    """A batch of candidates on the scenario in ``scenario_file`` cut at ``duration_s``.

    Senders run ``senders``, those of some classes what ``by_class`` says; None: what they run in the
    scenario.
    """

    scenario_file: Path
    engine: str
    duration_s: float
    watermarks: tuple[Setting, ...]
    seed: int
    senders: DcqcnParams | None = None
    by_class: tuple[tuple[str, DcqcnParams], ...] = ()

    def run(self) -> list[Prediction]:
        """One prediction per watermark; raises ``SearchError`` for an engine that raises."""
        with answering(self.engine) as engine:
            scenario = shipped_scenario(self.scenario_file, self.duration_s)
            if self.senders is not None:
                scenario = replace(scenario, dcqcn=self.senders, dcqcn_by_class=dict(self.by_class))
            return engine.predict(scenario, self.watermarks, seed=self.seed)


class Workers(Protocol):
    """Runs jobs in any order and place; results do not depend on either."""

    @property
    def n_workers(self) -> int:
        """Number of batches that run at the same time."""
        ...

    def run(self, tasks: Sequence[Job[T]], done: Callable[[int, T], None]) -> None:
        """Calls ``done(number, result)`` in this thread as each task ends.

        Raises ``SearchError`` where workers keep dying or an engine raises. An exception from ``done`` ends
        the run: no further task starts.
        """
        ...

    def close(self) -> None:
        """Releases processes and caches; the next run starts cold."""
        ...


class InProcessWorkers:
    """Runs tasks in this process, one after another: for tests, small rounds and debuggers."""

    n_workers = 1

    def run(self, tasks: Sequence[Job[T]], done: Callable[[int, T], None]) -> None:
        for number, task in enumerate(tasks):
            done(number, task.run())

    def close(self) -> None:
        shipped_scenario.cache_clear()
        _scenario.cache_clear()


class ProcessWorkers:
    """A pool of ``n_workers`` processes that stays warm between rounds.

    Where a process dies (killed, out of memory) the pool is rebuilt and lost tasks run again, at most
    ``RETRIES`` times a call. Workers run at ``niceness`` (0 to 19).
    """

    def __init__(self, n_workers: int, *, niceness: int = 0) -> None:
        if n_workers < 2:
            rule = "a pool has two processes or more"
            raise ParameterError("workers", str(n_workers), rule, "ask make_workers for fewer")
        self.n_workers = n_workers
        self._niceness = niceness

    def run(self, tasks: Sequence[Job[T]], done: Callable[[int, T], None]) -> None:
        run_in_attempts(tasks, lambda left: self._attempt(left, done))

    def close(self) -> None:
        get_reusable_executor(max_workers=self.n_workers, reuse=True).shutdown(wait=True)

    def _attempt(self, left: dict[int, Job[T]], done: Callable[[int, T], None]) -> None:
        """Runs the tasks ``left`` and removes those that finish; after a broken pool some stay."""
        stopped = threading.Event()

        def results() -> Iterator[tuple[int, T | TwinError]]:
            parallel = Parallel(
                n_jobs=self.n_workers,
                backend="loky",
                batch_size=1,
                pre_dispatch="2 * n_jobs",
                return_as="generator_unordered",
                idle_worker_timeout=_IDLE_S,
            )
            # In the generator: the call itself submits tasks, and raises where a worker was just killed.
            yield from parallel(
                delayed(_run_numbered)(number, task, self._niceness, os.getpid())
                for number, task in list(left.items())
                if not stopped.is_set()
            )

        enter_answers(_until_broken(results()), left, done, stopped)


def run_in_attempts(tasks: Sequence[Job[T]], attempt: Callable[[dict[int, Job[T]]], None]) -> None:
    """Calls ``attempt`` with the tasks left, from which it removes finished ones, until none is left.

    Raises ``SearchError`` where some are left after ``RETRIES`` further attempts.
    """
    left = dict(enumerate(tasks))
    for _ in range(RETRIES + 1):
        if not left:
            return
        attempt(left)
    if left:
        received = f"{len(left)} of {len(tasks)} batches lost in {RETRIES + 1} attempts"
        rule = "worker processes must live to the end of their batch"
        remedy = "look for an out-of-memory kill, use fewer workers or smaller batches, and run it again"
        raise SearchError("tuning round", received, rule, remedy)


def enter_answers(
    results: Iterator[tuple[int, T | TwinError]],
    left: dict[int, Job[T]],
    done: Callable[[int, T], None],
    stopped: threading.Event,
) -> None:
    """Calls ``done`` with each result and removes its task from ``left``; the first error sets ``stopped``.

    The error is raised once the results have ended: joblib kills the pool of a generator left early.
    """
    failure: BaseException | None = None
    for number, answer in results:
        if failure is not None:
            continue
        try:
            if isinstance(answer, TwinError):
                raise answer
            del left[number]
            done(number, answer)
        except BaseException as error:
            stopped.set()
            failure = error
    if failure is not None:
        raise failure


def _until_broken(results: Iterator[T]) -> Iterator[T]:
    with suppress(BrokenProcessPool):
        yield from results


def make_workers(n_workers: int, *, niceness: int = 0) -> Workers:
    """A pool of that many processes; 0 or 1 runs in this process."""
    if n_workers < 0:
        rule = "a count is 0 or more"
        raise ParameterError("workers", str(n_workers), rule, "give the number of cores to use")
    return ProcessWorkers(n_workers, niceness=niceness) if n_workers > 1 else InProcessWorkers()


def resolve_engine(name: str) -> Engine:
    """An engine by its registered name, or by ``module:Class``."""
    if ":" not in name:
        return engine_named(name)
    module_name, class_name = name.split(":", 1)
    try:
        made: Engine = getattr(import_module(module_name), class_name)()
    except (ImportError, AttributeError) as error:
        rule = f"it cannot be imported ({error})"
        raise ParameterError("engine", repr(name), rule, "correct the path") from error
    return made


@contextmanager
def answering(engine: str) -> Iterator[Engine]:
    """The engine of that name; turns any exception of the block but ``TwinError`` into ``SearchError``."""
    try:
        yield resolve_engine(engine)
    except TwinError:
        raise
    except Exception as error:
        if (what := what_did_not_fit(error)) is not None:
            raise SearchError(
                f"engine {engine}",
                f"no memory left: {what} does not fit",
                "a worker holds a whole moment of the fabric's traffic",
                "use fewer workers, shorter moments (tuning.moment_s), or a machine with more memory",
            ) from error
        # Converted in the worker: the original exception may not pickle.
        rule = "an engine answers with a status and never raises"
        remedy = "report it with the scenario, or choose another engine"
        raise SearchError(f"engine {engine}", f"{type(error).__name__}: {error}", rule, remedy) from error


@contextmanager
def shipped(scenarios: Sequence[Scenario]) -> Iterator[list[Path]]:
    """Writes the scenarios to files, which last as long as the block."""
    with tempfile.TemporaryDirectory(prefix="ecntwin-round-") as folder:
        files = []
        for scenario in scenarios:
            content = pickle.dumps(scenario, protocol=pickle.HIGHEST_PROTOCOL)
            file = Path(folder) / f"{blake2b(content, digest_size=16).hexdigest()}.pickle"
            file.write_bytes(content)
            files.append(file)
        yield files


# The content of the current task's scenario file, where that file is on another machine.
_SENT: ContextVar[tuple[Path, bytes] | None] = ContextVar("_SENT", default=None)


@contextmanager
def having(file: Path, content: bytes) -> Iterator[None]:
    """Lets the block read ``content`` as that of ``file``, which is on another machine."""
    token = _SENT.set((file, content))
    try:
        yield
    finally:
        _SENT.reset(token)


# Keyed by a file named by its content: a worker reads each scenario once a round.
@lru_cache(maxsize=24)
def shipped_scenario(file: Path, duration_s: float) -> Scenario:
    """The scenario of a file that ``shipped`` wrote, cut at ``duration_s``."""
    return _scenario(file).until(duration_s)


@lru_cache(maxsize=32)  # a round's parts and moments
def _scenario(file: Path) -> Scenario:
    sent = _SENT.get()
    # Safe to unpickle: written by this round's process for this user only, or sent by this worker's service.
    content = sent[1] if sent is not None and sent[0] == file else file.read_bytes()
    scenario: Scenario = pickle.loads(content)
    return scenario


@lru_cache(maxsize=1)  # once a process
def _set_niceness(niceness: int) -> None:
    if niceness > os.getpriority(os.PRIO_PROCESS, 0):  # lowering it takes a privilege
        os.setpriority(os.PRIO_PROCESS, 0, niceness)


def _run_numbered(number: int, task: Job[T], niceness: int, parent: int) -> tuple[int, T | TwinError]:
    """The task's number and result or error: an error raised through joblib would end the pool."""
    _set_niceness(niceness)
    end_with(parent)
    return number, answered(task)


class ReservedWorker:
    """One process at normal priority, beside the pool of the rounds.

    It ends half an hour after its last job. Where it dies (killed, out of memory) another one repeats the
    job, once.
    """

    n_workers = 1

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: ProcessPoolExecutor | None = None

    def run(self, tasks: Sequence[Job[T]], done: Callable[[int, T], None]) -> None:
        """See ``Workers``: one after another, in their order."""
        for number, task in enumerate(tasks):
            done(number, self._answer(task))

    def close(self) -> None:
        """Ends the process; a job in progress raises ``SearchError``. The next run starts cold."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.shutdown(wait=True, kill_workers=True)

    def _answer(self, task: Job[T]) -> T:
        for _ in range(2):
            process = self._started()
            try:
                answer: T | TwinError = process.submit(answered, task).result()
            except BrokenProcessPool:
                self._forget(process)
                continue
            except ShutdownExecutorError as error:
                rule = "its worker process was closed before it ended"
                raise SearchError("prediction", None, rule, "ask again") from error
            if isinstance(answer, TwinError):
                raise answer
            return answer
        rule = "worker processes must live to the end of their job"
        remedy = "look for an out-of-memory kill, ask for less, and ask again"
        raise SearchError("prediction", "a worker process that died 2 times", rule, remedy)

    def _started(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._process is None:
                self._process = ProcessPoolExecutor(
                    max_workers=1, timeout=_RESERVED_IDLE_S, initializer=end_with, initargs=(os.getpid(),)
                )
            return self._process

    def _forget(self, process: ProcessPoolExecutor) -> None:
        with self._lock:
            if self._process is process:
                self._process = None
        process.shutdown(wait=False, kill_workers=True)


def answered(task: Job[T]) -> T | TwinError:
    """The job's result, or its error as a value, which pickles whole."""
    try:
        return task.run()
    except TwinError as error:
        return error
