"""Systems are data: the registry, and a user's own through a sweep in two processes and through the report."""

import dataclasses
import importlib
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import equinox as eqx
import pytest

import narkit
from narkit.errors import UnknownNameError
from narkit.models.processors import written_out
from narkit.report import figures, tables, writing
from narkit.report.documents import readme_part
from narkit.report.grid import Grid, read_grid
from narkit.report.page import page
from narkit.report.published import algorithm_scores
from narkit.report.reproduction import reproduction_part
from narkit.sweeps.cells import SweepDirectory, SweepError, make_cells
from narkit.sweeps.checks import check_file, record_files
from narkit.sweeps.executor import SweepOptions
from narkit.sweeps.executors.processes import Processes
from narkit.sweeps.sweep import run_sweep
from narkit.sweeps.systems import Systems, find_system, main_rule
from narkit.sweeps.user_code import UserCode
from narkit.training.presets import PRESETS
from narkit.training.programs import Programs
from narkit.training.record import RunRecord

USERS = Path(__file__).parent / "users"
SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture
def my_systems(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A user's module, imported here and forgotten afterwards."""
    registries = (narkit.SYSTEMS, narkit.PROCESSORS, PRESETS)
    before = [dict(registry) for registry in registries]
    monkeypatch.syspath_prepend(str(USERS))
    importlib.import_module("my_systems")
    yield
    del sys.modules["my_systems"]
    for registry, entries in zip(registries, before, strict=True):
        registry.clear()
        registry.update(entries)  # type: ignore[arg-type]


def test_presets_say_how_many_seeds() -> None:
    assert [narkit.SYSTEMS[name].num_seeds for name in ("team", "mpnn", "pgn", "memnet")] == [5, 3, 3, 3]
    assert len(narkit.SYSTEMS["mpnn"].config("bfs").seeds) == 3
    assert narkit.SYSTEMS["mpnn"].under("paper").num_seeds == 5
    assert [len(cell.config.seeds) for cell in make_cells(None, ["team", "mpnn"], ["bfs"])] == [5, 3]
    assert [len(cell.config.seeds) for cell in make_cells("paper", ["mpnn"], ["bfs"], 2)] == [2]


def test_a_variant_is_trained_with_its_options() -> None:
    steep = narkit.System("team_steep", "TEAM, steep", "team", {"slope": 0.2})
    (cell,) = make_cells(None, [steep], ["bfs"])
    assert cell.name == "team_steep/bfs"
    assert cell.config.processor_options == {"slope": 0.2}
    assert SweepDirectory("out").record(cell) == Path("out/team_steep/bfs.json")
    assert main_rule(cell.config, steep) == "ood"
    assert main_rule(cell.config, dataclasses.replace(steep, rule="id")) == "id"


def test_systems_beyond_the_paper() -> None:
    configs = {name: system.config("bfs") for name, system in narkit.SYSTEMS.items()}
    plus = configs["team_plus"]
    assert (plus.processor, plus.edge_pointers, plus.comparisons, plus.seeds) == (
        *("team_plus", "lossless", False),
        tuple(range(5)),
    )
    assert configs["team_plus_comparisons"].differences(plus) == {"comparisons": (True, False)}
    baseline = configs["triplet_gmpnn_plus"].differences(plus)
    assert baseline == {
        "processor": ("triplet_gmpnn", "team_plus"),
        "edge_pointers": ("means", "lossless"),
        "growing_hints": (False, True),
    }
    assert set(configs["team_second_reading"].differences(configs["team"])) == {"processor_options"}
    for name in ("team_plus", "team_plus_comparisons", "triplet_gmpnn_plus"):
        system = narkit.SYSTEMS[name]
        assert (system.preset, system.rule, system.num_seeds) == ("plus", "ood_average", 5)
        assert main_rule(configs[name], system) == "ood_average"


@pytest.mark.parametrize(
    ("processor", "options"),
    [("team_plus", {}), ("team_plus", {"maxima": 0}), ("team", {"num_heads": 2}), ("mpnn", {})],
)
def test_weights_are_known_as_those_of_their_configuration(processor: str, options: dict) -> None:
    """A file names the class with all options, a configuration a registered name, perhaps with further options."""
    config = narkit.TrainConfig(("bfs",), processor, processor_options=options, hidden_size=4)
    reasoner = eqx.filter_eval_shape(Programs(config)._reasoner_of_seed, 0)
    in_file = written_out(reasoner.processor_name, json.loads(reasoner.processor_options))
    assert in_file == written_out(processor, options)
    assert in_file != written_out("team", {"slope": 0.2})


def test_settings_of_a_system_give_way_to_those_that_are_given() -> None:
    (cell,) = make_cells(None, ["team_plus"], ["bfs"], options={"edge_pointers": "means"})
    assert cell.config.edge_pointers == "means"
    (quick,) = make_cells("quick", ["team_plus"], ["bfs"])
    assert quick.config.edge_pointers == "lossless" and quick.system.rule == "ood"
    (development,) = make_cells("development", ["team_plus"], ["bfs"])
    assert development.config.seeds == (100, 101, 102) and development.system.rule == "ood_average"
    assert [each.name for each in development.config.scored] == ["dev"] and not development.config.test


def test_columns_beyond_the_paper_show_once_they_have_records(
    write_grid: Callable[..., Path], make_record: Callable[..., RunRecord], tmp_path: Path
) -> None:
    write_grid(tmp_path, ["bfs", "dfs"])
    published = [system.name for system in narkit.SYSTEMS.values() if system.published]
    assert [column.name for column in read_grid(tmp_path).columns] == published
    for system in ("team_plus", "triplet_gmpnn_plus"):
        config = narkit.SYSTEMS[system].config("bfs")
        options = {k: v for k, v in config.to_json().items() if k not in ("algorithms", "processor")}
        made = make_record("bfs", config.processor, 90.0, **options)
        named = system if system != config.processor else None
        path = tmp_path / "plus" / system / "bfs.json"
        path.parent.mkdir(parents=True)
        dataclasses.replace(made, system=named, preset="plus").save(path)
    grid = read_grid(tmp_path)
    assert grid.left_out == ()
    assert [column.name for column in grid.columns] == [*published, "triplet_gmpnn_plus", "team_plus"]
    score = grid.column(narkit.SYSTEMS["team_plus"]).algorithm("bfs")
    assert score is not None and score.mean == pytest.approx(93.0)
    table = tables.algorithm_table(grid)
    assert "team_plus_ours" in [heading.key for heading in table.headings]
    assert "TEAM+" in readme_part(grid) and "TEAM+" in page(grid, [tables.rule_table(grid)], {})


def test_wrong_systems_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'team'"):
        find_system("taem")
    with pytest.raises(ValueError, match="expected a plain word, since it names a folder, got 'a/b'"):
        narkit.System("a/b", "A", "team")
    with pytest.raises(ValueError, match="expected another name than 'team'"):
        Systems(narkit.SYSTEMS.values()).add(narkit.System("team", "Another", "team"))
    with pytest.raises(SweepError, match="expected different trainings"):
        make_cells(None, ["triplet_gmpnn", "triplet_gmpnn_ood_val"], ["bfs"])
    with pytest.raises(UnknownNameError, match="option of the processor team"):
        narkit.System("wrong", "Wrong", "team", {"slop": 0.2}).config("bfs")


def test_a_published_column_that_does_not_exist_is_named() -> None:
    with pytest.raises(
        UnknownNameError, match=r"published column \(system mine\) is named 'taem'; did you mean 'team'"
    ):
        algorithm_scores(narkit.System("mine", "Mine", "team", published="taem"))


def test_a_processor_that_other_processes_cannot_import_is_refused(tmp_path: Path) -> None:
    class Local(narkit.PROCESSORS["mpnn"]):  # type: ignore[misc]
        pass

    narkit.PROCESSORS["local"] = Local
    try:
        with pytest.raises(SweepError, match="the processor local: expected it in a module that other processes can"):
            cells = make_cells("quick", ["local"], ["bfs"])
            run_sweep(cells, SweepDirectory(tmp_path), options=SweepOptions(), executor=Processes(2))
    finally:
        del narkit.PROCESSORS["local"]


def test_other_processes_get_the_users_code(my_systems: None) -> None:
    """Whoever registered them: what is sent names the classes, and modules that were imported for the command line."""
    code = UserCode.of(make_cells(None, ["averaging_half"], ["bfs"]))
    assert code.processors == {"averaging": ("my_systems", "Averaging")}
    for registry in (narkit.SYSTEMS, narkit.PROCESSORS):
        for name in ("averaging", "averaging_half"):
            registry.pop(name, None)
    pickle.loads(pickle.dumps(code)).install()
    assert narkit.PROCESSORS["averaging"].__name__ == "Averaging"
    assert UserCode.of(make_cells(None, ["team"], ["bfs"])) == UserCode((), (), {})


def test_a_report_of_a_users_systems(my_systems: None, make_record: Callable[..., RunRecord], tmp_path: Path) -> None:
    options = {"processor_options": {"scale": 0.5}, "seeds": (0, 1), **PRESETS["tiny"]}
    record = dataclasses.replace(make_record("bfs", "averaging", **options), system="averaging_half", preset="tiny")
    path = tmp_path / "tiny/averaging_half/bfs.json"
    path.parent.mkdir(parents=True)
    record.save(path)
    another = tmp_path / "tiny/averaging/bfs.json"
    another.parent.mkdir()
    dataclasses.replace(record, system="averaging").save(another)
    grid = read_grid(tmp_path)
    assert set(grid.cells) == {("averaging_half", "bfs")}
    (left,) = grid.left_out
    assert "processor_options is {'scale': 0.5}, not {}" in left.reason
    assert "Averaging, halved" in readme_part(grid) and "Averaging, halved" in reproduction_part(grid)
    only = read_grid(tmp_path, systems=[narkit.SYSTEMS["averaging_half"]])
    assert [column.name for column in only.columns] == ["averaging_half"]
    check_tables(only)
    shown = page(only, [tables.category_table(only), tables.rule_table(only)], {})
    assert shown.count("Averaging, halved") >= 2
    assert "Averaging, halved" in readme_part(only) and "Averaging, halved" in reproduction_part(only)
    titles = [axis.get_title(loc="left") for axis in figures.category_chart(only).axes]
    assert titles == ["Averaging, halved (ours: rule ood, 2 seeds)"]
    assert figures.learning_curves(only).legends[0].get_texts()[0].get_text() == "Averaging, halved"


def check_tables(grid: Grid) -> None:
    """Tables show the system, with no column for what was not published."""
    table = tables.algorithm_table(grid)
    keys = [heading.key for heading in table.headings]
    assert "averaging_half_ours" in keys and "averaging_half_paper" not in keys
    bfs = next(row for row in table.rows if row.key == "bfs")
    ours = grid.column(narkit.SYSTEMS["averaging_half"]).algorithm("bfs")
    assert ours is not None and bfs.entries[keys.index("averaging_half_ours")] == ours


@pytest.mark.slow
def test_a_users_systems_through_two_processes_and_the_report(
    my_systems: None, program_cache: Path, tmp_path: Path
) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(SOURCE),
        "JAX_COMPILATION_CACHE_DIR": str(program_cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    words = ["--import", "my_systems", "sweep", "--systems", "averaging,averaging_half", "--algorithms", "bfs"]
    command = [sys.executable, "-m", "narkit", *words, "--processes", "2", "--out", str(tmp_path / "tiny")]
    done = subprocess.run(command, cwd=USERS, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "averaging_half/bfs done in" in done.stdout and "all cells are finished" in done.stdout
    assert [check_file(path).problems for path in record_files(tmp_path)] == [(), ()]
    record = RunRecord.load(tmp_path / "tiny/averaging_half/bfs.json")
    assert (record.system, record.preset, record.config.processor) == ("averaging_half", "tiny", "averaging")
    assert record.config.processor_options == {"scale": 0.5} and len(record.config.seeds) == 2
    grid = read_grid(tmp_path)
    assert grid.left_out == () and set(grid.cells) == {("averaging", "bfs"), ("averaging_half", "bfs")}
    check_tables(grid)
    writing.write_report(grid, tmp_path / "report")
    for name in ("index.html", "table1.md", "categories.svg", "learning_curves.svg"):
        assert "Averaging, halved" in (tmp_path / "report" / name).read_text(), name
