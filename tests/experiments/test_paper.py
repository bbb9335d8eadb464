"""The paper's evaluation as a whole, on a data set that is small enough to compute all of it."""

import json
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nextclick.cli import main
from nextclick.errors import BadInputError
from nextclick.evaluation.prequential import evaluate
from nextclick.experiments import paper as experiment
from nextclick.experiments.computing import _renewal, build, train
from nextclick.experiments.plan import QUICK, Scale, chosen, plan
from nextclick.experiments.report import Figure, Table, Text
from nextclick.experiments.rows import ROWS, row_cell
from nextclick.experiments.store import FACTS, TESTS, Outcome, Store
from nextclick.experiments.study import METRICS, Study
from nextclick.experiments.tables import claims, overall
from nextclick.experiments.tables.fits import fitting
from nextclick.memory_augmented import MemoryAugmented
from nextclick.runtime import Runtime

Capture = pytest.CaptureFixture[str]

RUNTIME = Runtime(threads=1)
LIMIT = 40


@pytest.fixture
def study(periods: Path, tmp_path: Path) -> Study:
    request = experiment.Request("diginetica", periods, limit=LIMIT)
    return experiment.open_study(request, Store(tmp_path / "cache"), RUNTIME)


def computed(study: Study, *names: str, workers: int = 1) -> list[str]:
    """Compute cells, and return what was done, in order."""
    told: list[str] = []
    jobs = experiment.left(study, chosen(study.cells, names))
    errors = experiment.run(
        jobs, study, workers, RUNTIME, lambda done, _n, _all: told.append(done.job.name)
    )
    assert errors == {}
    study.__dict__.pop("outcomes", None)
    return told


def test_a_cell_is_what_evaluating_by_hand_gives(study: Study) -> None:
    computed(study, "man-narm", "sknn")
    data = study.data["time"]
    for name in ("man-narm", "sknn"):
        model = build(study.cells[name], data, study.store, RUNTIME)
        expected = evaluate(model, data.test.transitions(), training=data.train, limit=LIMIT)
        found = study.evaluation(name)
        assert found is not None
        np.testing.assert_array_equal(found.ranks, expected.ranks)
        np.testing.assert_array_equal(found.weights, expected.weights)
        assert found.metrics(found.new) == pytest.approx(
            expected.metrics(expected.new), nan_ok=True
        )


def test_one_network_is_trained_for_all_that_use_it(study: Study) -> None:
    told = computed(study, "narm", "narm-letter", "man-narm", "ablation/man-narm-10k")
    assert [name for name in told if name.startswith("network of")] == ["network of narm-letter"]
    # What is there is not computed again.
    assert computed(study, "narm", "man-narm") == []


def test_what_was_interrupted_goes_on(study: Study) -> None:
    cells = chosen(study.cells, ["sknn", "s-sknn", "stan"])

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        experiment.run(experiment.left(study, cells), study, 1, RUNTIME, interrupt)
    assert computed(study, *cells) == ["s-sknn", "stan"]


def test_an_interrupted_training_goes_on_from_its_checkpoint(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nextclick.encoders import training

    data = study.data["time"]
    network = study.cells["narm"].network
    assert network is not None
    key = network.key(data.fingerprint)
    whole = training._train_epoch

    def stop_in_third(course: training.Course, *rest: object) -> None:
        if course.epoch == 3:
            raise KeyboardInterrupt
        whole(course, *rest)  # type: ignore[arg-type] # as it was called

    monkeypatch.setattr(training, "_train_epoch", stop_in_third)
    with pytest.raises(KeyboardInterrupt):
        train(network, data, study.store, RUNTIME)
    assert study.store.checkpoint(key).exists()
    assert not study.store.has_network(key)

    epochs = []

    def count(course: training.Course, *rest: object) -> None:
        epochs.append(course.epoch)
        whole(course, *rest)  # type: ignore[arg-type] # as it was called

    monkeypatch.setattr(training, "_train_epoch", count)
    train(network, data, study.store, RUNTIME)
    assert epochs[0] == 3
    assert study.store.network_facts(key)["resumed"]
    assert not study.store.checkpoint(key).exists()


@pytest.mark.slow
def test_two_processes_find_the_same(study: Study, tmp_path: Path) -> None:
    names = ("sknn", "v-sknn", "stan")
    computed(study, *names)
    other = replace(study, store=Store(tmp_path / "other"))
    for data in other.data.values():
        other.store.keep_data(data)
    assert sorted(computed(other, *names, workers=2)) == sorted(names)
    for name in names:
        one, two = study.evaluation(name), other.evaluation(name)
        assert one is not None
        assert two is not None
        np.testing.assert_array_equal(one.ranks, two.ranks)


@pytest.mark.slow
def test_workers_end_with_the_run_however_it_ends(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    lines = [f"{session} {(session + n) % 300}\n" for session in range(3_000) for n in range(4)]
    (tmp_path / "data" / "period_0.txt").write_text("".join(lines))
    cache = tmp_path / "cache"
    command = [sys.executable, "-m", "nextclick", "paper", "diginetica", "--cache", str(cache)]
    command += ["--data", str(tmp_path / "data"), "--out", str(tmp_path / "out")]
    command += ["--only", "narm", "--only", "gru4rec", "--workers", "2"]
    with subprocess.Popen(command) as run:
        tasks = Path(f"/proc/{run.pid}/task/{run.pid}/children")
        if not tasks.exists():
            run.kill()
            pytest.skip("the system does not tell the children of a process")
        while not list(cache.glob("networks/*.checkpoint")):
            assert run.poll() is None
            time.sleep(0.02)
        children = [int(child) for child in tasks.read_text().split()]
        assert len(children) >= 2
        run.kill()
    while any(is_running(child) for child in children):
        time.sleep(0.02)
    assert not list(cache.glob("networks/*/facts.json")), "a worker has gone on alone"


def is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_what_fails_is_named_and_the_rest_is_done(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nextclick.experiments import schedule

    def fail(*_: object) -> None:
        raise BadInputError("the disk is full")

    monkeypatch.setattr(schedule, "train", fail)
    jobs = experiment.left(study, chosen(study.cells, ["narm", "sknn"]))
    told: list[str] = []
    errors = experiment.run(
        jobs, study, 1, RUNTIME, lambda done, _n, _all: told.append(done.job.name)
    )
    assert errors == {"network of narm": "the disk is full", "narm": "its network failed"}
    assert told == ["sknn", "network of narm", "narm"]


def test_a_damaged_result_is_named(study: Study) -> None:
    computed(study, "sknn")
    folder = study.store.root / "results" / study.key("sknn")
    (folder / TESTS).write_bytes(b"nonsense")
    with pytest.raises(BadInputError, match=f"{TESTS}: damaged"):
        study.store.result(study.key("sknn"))


def test_a_result_depends_on_all_that_it_should(study: Study) -> None:
    cell = study.cells["man-narm"]
    key = cell.key("data")
    changes = [
        {"seed": 1},
        {"limit": 7},
        {"parts": ()},
        {"absorb": False},
        {"order": "item-hash"},
        {"renew": 5},
        {"on": "validation"},
        {"settings": {**cell.settings, "remember": "fresh"}},
    ]
    others = {cell.model_copy(update=change).key("data") for change in changes}
    assert len(others | {key, cell.key("other data")}) == len(changes) + 2
    assert cell.network is not None
    settings = {**cell.settings, "gate": {**cell.settings["gate"], "hidden": 7}}
    again = cell.model_copy(update={"settings": settings})
    assert again.network == cell.network, "the gate is no part of the network"


def test_keys_encoded_anew_are_those_of_the_same_transitions(study: Study) -> None:
    data = study.data["time"]
    still = {"memory": {"kind": "exact"}, "neural": {"online": {"learning_rate": 0.0}}}
    cell = row_cell("diginetica", "man-narm", still, renew=20)
    assert cell.network is not None
    train(cell.network, data, study.store, RUNTIME)
    tested = data.test.transitions()
    memories = []
    for renew in (False, True):
        model = build(cell, data, study.store, RUNTIME)
        assert isinstance(model, MemoryAugmented)
        after = _renewal(cell, model, data, tested) if renew else None
        evaluate(model, tested, training=data.train, after=after, parts=("memory",))
        memories.append(model.state())
    once, anew = memories
    for name in once:
        if name.startswith("method/memory"):
            # The network has learned nothing online, so that all keys are what they were.
            np.testing.assert_allclose(once[name], anew[name], atol=1e-5)


def with_ranks(outcome: Outcome, ranks: np.ndarray) -> Outcome:
    small = ranks.astype(np.int16)
    by_part = {"neural": small, "memory": small}
    return Outcome(replace(outcome.evaluation, ranks=small, by_part=by_part), outcome.facts)


def invented(study: Study, **hits: float) -> Study:
    """The same study with this share of hits; ``item_hash__sknn`` names item-hash/sknn."""
    outcomes = {}
    for name, share in hits.items():
        outcome = study.outcomes["sknn"]
        draws = np.random.default_rng(1).random(len(outcome.evaluation))
        cell = name.replace("__", "/").replace("_", "-")
        outcomes[cell] = with_ranks(outcome, np.where(draws < share, 1, 0))
    study.__dict__["outcomes"] = outcomes
    return study


def test_claims_are_stated_whichever_way_they_come_out(study: Study) -> None:
    computed(study, "sknn")
    text = claims.parts(invented(study, narm=0.2, man_plus_narm=0.9, sknn=0.1))[0]
    assert isinstance(text, Text)
    said = {line.split(": ", 1)[1].split(".")[0]: line for line in text.paragraphs}
    assert said["MAN+-NARM is above NARM in all four metrics, p < 0"].startswith("Yes: ")
    assert said["The best MAN+ row is above every other row, in all four metrics"].startswith("Yes")
    assert said["SKNN is no more than 0"].startswith("No: ")
    assert said["MAN-NARM is above NARM by the letter in all four metrics, p < 0"].startswith(
        "Not yet run"
    )

    shutil.rmtree(study.store.root / "comparisons")  # they are of the results before
    text = claims.parts(invented(study, narm=0.9, man_plus_narm=0.2, sknn=0.262))[0]
    assert isinstance(text, Text)
    assert any(line.startswith("No: MAN+-NARM is above NARM") for line in text.paragraphs)


def test_a_gate_that_does_not_turn_from_the_network_for_new_items_is_explained(
    study: Study,
) -> None:
    computed(study, "sknn")
    outcome = invented(study, man_plus_narm=0.5).outcomes["man-plus-narm"]
    for new, old, said in ((0.9, 0.1, "No: "), (0.1, 0.9, "Yes: ")):
        weights = np.where(outcome.evaluation.new, new, old).astype(np.float32)
        evaluation = replace(outcome.evaluation, weights=weights)
        study.outcomes["man-plus-narm"] = replace(outcome, evaluation=evaluation)
        text = claims.parts(study)[0]
        assert isinstance(text, Text)
        (line,) = [one for one in text.paragraphs if "The gate of MAN+-NARM" in one]
        assert line.startswith(said)
        assert ("leaning" in line) == (said == "No: ")


def test_the_order_that_fits_is_the_nearer_one(study: Study) -> None:
    computed(study, "sknn")
    study.paper["overall"]["diginetica"]["SKNN"] = [0.5, 0.5, 0.5, 0.5]
    row = next(row for row in ROWS if row.name == "sknn")
    for time_share, wrong_share, fits in (
        (0.5, 0.9, "time"),
        (0.9, 0.5, "item-hash"),
        (0.5, 0.5, "both alike"),
    ):
        invented(study, sknn=time_share, item_hash__sknn=wrong_share)
        assert fitting(study, row) == fits


def test_rows_far_from_the_paper_say_why(study: Study) -> None:
    computed(study, "sknn")
    invented(study, sknn=0.9, item_hash__sknn=0.262)
    text = overall.parts(study)[1]
    assert isinstance(text, Text)
    (line,) = text.paragraphs
    assert line.startswith("SKNN (HR@5 +")
    assert "fit sessions in another order than time" in line


def test_shorter_cells_are_the_beginnings_of_longer_ones() -> None:
    cells = plan("diginetica", Scale())
    assert cells["learning-rate/1e-4"] == cells["narm-letter"]
    assert cells["default/man-plus-narm"] == cells["man-plus-narm"]
    assert cells["learning-rate/1e-3"].limit == Scale().rates
    assert cells["trained-on/man-narm"].limit == Scale().sides


def test_a_quick_run_trains_every_network_quickly() -> None:
    cells = plan("diginetica", QUICK)
    networks = [cell.network for cell in cells.values() if cell.network]
    assert all(network.training["epochs"] == QUICK.epochs for network in networks)
    assert len({network.key("data") for network in networks}) == 6


def test_cells_are_asked_for_by_name_or_group() -> None:
    cells = plan("yoochoose", Scale())
    assert list(chosen(cells, ["loss/top1-max"])) == ["loss/top1-max"]
    assert len(chosen(cells, ["learning-rate"])) == 7
    with pytest.raises(BadInputError, match=r"--only narn: no such cell; did you mean narm\?"):
        chosen(cells, ["narn"])


@pytest.mark.parametrize("data_set", ["diginetica", "yoochoose"])
def test_every_row_has_settings_and_every_row_of_the_paper_is_there(data_set: str) -> None:
    from nextclick.experiments.rows import published, row_settings

    figures = published()
    assert {row.paper for row in ROWS if row.paper} == set(figures["overall"][data_set])
    for row in ROWS:
        assert row_settings(data_set, row.name).chosen
    assert all(len(values) == 4 for values in figures["overall"][data_set].values())


@pytest.mark.slow
def test_everything(periods: Path, tmp_path: Path, capsys: Capture) -> None:
    """All cells, both reports, the terminal; and nothing again the second time."""
    command = ["paper", "diginetica", "--data", str(periods), "--limit", str(LIMIT)]
    command += ["--cache", str(tmp_path / "cache"), "--out", str(tmp_path / "out")]
    command += ["--threads", "1"]
    assert main(command) == 0
    captured = capsys.readouterr()
    assert "failed" not in captured.err
    lines = captured.out.splitlines()
    html, markdown = (Path(line) for line in lines[-2:])
    assert max(map(len, lines[:-2])) <= 80
    assert "…" not in captured.out, "nothing is cut"
    for title in ("3. Overall results", "What was to come out", "8. HR@5 by how often"):
        assert any(title in line for line in lines), title

    page, text = html.read_text(encoding="utf-8"), markdown.read_text(encoding="utf-8")
    without_scripts = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r'(src|href)="http', without_scripts)
    study = experiment.open_study(
        experiment.Request("diginetica", periods, limit=LIMIT), Store(tmp_path / "cache"), RUNTIME
    )
    assert set(study.outcomes) == set(study.cells)
    for part in experiment.contents(study):
        if isinstance(part, Figure):
            assert part.figure.layout.xaxis.title.text
            assert part.figure.layout.yaxis.title.text
            continue
        assert f"## {part.title}" in text
        if isinstance(part, Table):
            assert all(len(row) == len(part.columns) for row in part.rows), part.title
            assert not any("…" in row for row in part.rows), part.title
    metrics = study.figures("man-plus-narm")
    assert metrics is not None
    row = next(line for line in text.splitlines() if line.startswith("| MAN+-NARM | - |"))
    for metric in METRICS:
        assert f"{metrics[metric]:.3f}" in row

    started = time.perf_counter()
    assert main(command) == 0
    assert time.perf_counter() - started < 10
    assert "[1/" not in capsys.readouterr().err, "nothing is computed again"


def test_what_is_not_there_is_marked(periods: Path, tmp_path: Path, capsys: Capture) -> None:
    where = ["--data", str(periods), "--limit", str(LIMIT), "--cache", str(tmp_path / "cache")]
    command = ["paper", "diginetica", "--threads", "1", *where, "--out", str(tmp_path / "out")]
    assert main([*command, "--only", "sknn"]) == 0
    assert "[1/1] sknn: " in capsys.readouterr().err
    assert main([*command, "--as-is", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["cells"]["sknn"]["HR@20"] > 0
    assert found["cells"]["narm"] is None
    text = Path(found["reports"][1]).read_text(encoding="utf-8")
    assert "Not complete: 1 of" in text
    assert re.search(r"In all, networks included: time order \d+ minutes, item-hash order 0", text)
    assert "…: not yet run." in text
    assert main([*command, "--list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == found["cells"]
    assert main(["paper", "diginetica", "--data", str(tmp_path / "absent")]) == 2


def test_facts_say_how_a_result_came_to_be(study: Study) -> None:
    computed(study, "s-sknn")
    facts = json.loads(
        (study.store.root / "results" / study.key("s-sknn") / FACTS).read_text(encoding="utf-8")
    )
    assert facts["cell"] == study.cells["s-sknn"].model_dump(mode="json")
    assert set(facts["seconds"]) == {"building", "evaluation"}
    assert facts["processor_seconds"] > 0
    assert facts["versions"]["nextclick"]
    assert facts["answer_seconds"] > 0


@pytest.mark.slow
def test_a_sample_of_the_real_data(shared_data: Path, tmp_path: Path, capsys: Capture) -> None:
    """The rows that need no training, on a twentieth of DIGINETICA."""
    command = ["paper", "diginetica", "--data", str(shared_data / "diginetica"), "--quick"]
    command += ["--cache", str(tmp_path / "cache"), "--out", str(tmp_path / "out"), "--json"]
    for name in ("sknn", "s-sknn", "item-hash/sknn"):
        command += ["--only", name]
    assert main(command) == 0
    cells = json.loads(capsys.readouterr().out)["cells"]
    for figures in cells.values():
        assert 0.1 < figures["HR@5"] < figures["HR@20"] < 0.6
    assert cells["item-hash/sknn"] != cells["sknn"]
