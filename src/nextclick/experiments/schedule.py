"""Computing what is missing: networks first, then the cells that wait for them, in processes."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from multiprocessing.connection import Connection, wait
from pathlib import Path
from threading import Thread
from time import perf_counter

from nextclick.datasets.prepared import PreparedData
from nextclick.errors import BadInputError
from nextclick.experiments.cells import Cell, Network
from nextclick.experiments.computing import compute, train
from nextclick.experiments.store import Store
from nextclick.runtime import Runtime


@dataclass(frozen=True)
class Job:
    """A network to train or a cell to compute.

    Parameters
    ----------
    name
        What people call it.
    work
        Its description.
    fingerprint
        That of the data.
    """

    name: str
    work: Network | Cell
    fingerprint: str

    @property
    def key(self) -> str:
        """The name that it is kept under."""
        return self.work.key(self.fingerprint)

    @property
    def needs(self) -> str | None:
        """The key of the network that has to be there first."""
        network = self.work.network if isinstance(self.work, Cell) else None
        return network.key(self.fingerprint) if network else None

    def is_done(self, store: Store) -> bool:
        """Whether it is kept already."""
        has = store.has_result if isinstance(self.work, Cell) else store.has_network
        return has(self.key)


@dataclass(frozen=True)
class Done:
    """A job that ended; with what went wrong, if anything did."""

    job: Job
    seconds: float
    error: str | None = None


Tell = Callable[[Done, int, int], None]
"""Is told what ended, how many jobs have, and how many there are."""


def missing(cells: Mapping[str, Cell], fingerprints: Mapping[str, str], store: Store) -> list[Job]:
    """Return the jobs that are left to do, networks before the cells that need them.

    Parameters
    ----------
    cells
        What is wanted, by name.
    fingerprints
        Those of the data, by session order.
    store
        Where things are kept.
    """
    jobs: dict[str, Job] = {}
    for name, cell in cells.items():
        fingerprint = fingerprints[cell.order]
        job = Job(name, cell, fingerprint)
        if job.is_done(store):
            continue
        network = cell.network
        if network is not None:
            training = Job(f"network of {name}", network, fingerprint)
            if not training.is_done(store):
                jobs.setdefault(training.key, training)
        jobs.setdefault(job.key, job)
    # What needs no network takes seconds; then trainings, which take longest and much waits for.
    return sorted(jobs.values(), key=_turn)


def _turn(job: Job) -> int:
    if isinstance(job.work, Network):
        return 1
    return 2 if job.needs else 0


def work_off(
    jobs: list[Job], store: Store, workers: int, runtime: Runtime, tell: Tell
) -> dict[str, str]:
    """Do the jobs, and return what went wrong with which.

    What is done is kept as soon as it is done, so that an interrupted run goes on where it was.

    Parameters
    ----------
    jobs
        From `missing`.
    store
        Where things are kept.
    workers
        How many processes work at a time, each with one thread; with one, this process does all.
    runtime
        Threads, device and progress, if this process does all.
    tell
        Called after each job.
    """
    errors: dict[str, str] = {}
    if workers > 1:
        work = _in_processes(jobs, store, workers, runtime)
    else:
        work = _in_this_process(jobs, store, runtime)
    for n_done, done in enumerate(work, start=1):
        if done.error is not None:
            errors[done.job.name] = done.error
        tell(done, n_done, len(jobs))
    return errors


def _in_this_process(jobs: list[Job], store: Store, runtime: Runtime) -> Iterator[Done]:
    failed: set[str] = set()
    for job in jobs:
        started = perf_counter()
        error = "its network failed" if job.needs in failed else _outcome_of(job, store, runtime)
        if error is not None:
            failed.add(job.key)
        yield Done(job, perf_counter() - started, error)


def _in_processes(jobs: list[Job], store: Store, workers: int, runtime: Runtime) -> Iterator[Done]:
    waiting = list(jobs)
    unfinished = {job.key for job in jobs}
    failed: set[str] = set()
    with _processes(min(workers, len(jobs)), store, runtime) as idle:
        busy: dict[Connection, tuple[Job, float]] = {}
        while waiting or busy:
            for job in list(waiting):
                if job.needs in failed:
                    waiting.remove(job)
                    failed.add(job.key)
                    yield Done(job, 0.0, "its network failed")
                elif idle and job.needs not in unfinished:
                    waiting.remove(job)
                    worker = idle.pop()
                    worker.send(job)
                    busy[worker] = (job, perf_counter())
            for ready in wait(list(busy)):
                assert isinstance(ready, Connection)
                job, started = busy.pop(ready)
                try:
                    error = ready.recv()
                    idle.append(ready)
                except EOFError:
                    error = "its process died; is there enough memory?"
                unfinished.discard(job.key)
                if error is not None:
                    failed.add(job.key)
                yield Done(job, perf_counter() - started, error)
            if waiting and not busy and not idle:
                raise BadInputError("all worker processes died; try --workers 1")


@contextmanager
def _processes(n: int, store: Store, runtime: Runtime) -> Iterator[list[Connection]]:
    """Start workers of one thread each, and hand out the connections to them."""
    context = multiprocessing.get_context("spawn")
    runtime = replace(runtime, threads=1, show_progress=False)
    kept = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")}
    os.environ.update(dict.fromkeys(kept, "1"))
    processes, connections = [], []
    try:
        for _ in range(n):
            here, there = context.Pipe()
            # A daemon: when this process ends, however it does, the workers end.
            process = context.Process(target=_serve, args=(there, store, runtime), daemon=True)
            process.start()
            there.close()
            processes.append(process)
            connections.append(here)
    finally:
        for name, value in kept.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    try:
        yield list(connections)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()


def _serve(connection: Connection, store: Store, runtime: Runtime) -> None:
    """Do one job after the other, as long as there is somebody who sends them."""
    Thread(target=_end_with_parent, daemon=True).start()
    try:
        while True:
            connection.send(_outcome_of(connection.recv(), store, runtime))
    except (EOFError, KeyboardInterrupt, BrokenPipeError):
        return


def _end_with_parent() -> None:
    """End this process when the one that started it ends, however that came about."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _outcome_of(job: Job, store: Store, runtime: Runtime) -> str | None:
    """Do a job, and return what went wrong."""
    try:
        data = _load(store.data(job.fingerprint))
        if isinstance(job.work, Network):
            train(job.work, data, store, runtime)
        else:
            compute(job.work, data, store, runtime)
    except BadInputError as error:
        return str(error)
    except Exception:
        return traceback.format_exc()
    return None


@lru_cache(maxsize=2)
def _load(folder: Path) -> PreparedData:
    return PreparedData.load(folder)
