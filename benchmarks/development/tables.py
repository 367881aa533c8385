"""Writes the tables of docs/beyond.md from what lies in results/development: `python benchmarks/development/tables.py`.

There are lines that the scripts here wrote, and records of the preset `development` that `narkit sweep --preset
development --out results/development/ARM` wrote, where ARM is what the arm is called here. Those in the folder
`ablation` are of the systems of `ablation.py`; those in `early` are of binary search, not scored at size 64.

`--check` writes nothing and fails if the document is not what the results say.
"""

import json
import statistics
import sys
from pathlib import Path

from narkit import ALGORITHMS
from narkit.spec import Kind

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "beyond.md"
WRITTEN = "written by benchmarks/development/tables.py"
COLUMNS = {
    "sel_raw": "raw, selected",
    "sel_average": "average, selected",
    "last_a9": "average t/9, last",
    "last_a4": "average t/4, last",
}


FOLDER = ROOT / "results" / "development"
RULES = {"sel_raw": "ood", "sel_average": "ood_average", "last_a9": "last_average"}  # what the columns are in records
INSTANCES = "dev"  # the set that development runs are scored on
ABLATION = "ablation"  # the folder of the ablation
EARLY = "early"  # the folder of binary search, taken apart
READINGS = "readings"  # the folder of readings.py, which writes a table of its own
WHOLE = "team_plus"  # the system that nothing was taken out of


def lines(pattern: str) -> list[dict]:
    return [json.loads(line) for file in sorted(FOLDER.glob(pattern)) for line in file.read_text().splitlines()]


def records() -> list[dict]:
    paths = sorted(FOLDER.glob("*/*/*.json"))
    return [of_record(path) for path in paths if path.parts[-3] not in (ABLATION, EARLY, READINGS)]


def of_record(path: Path) -> dict:
    """A record as a line: results/development/ARM/SYSTEM/ALGORITHM.json."""
    record = json.loads(path.read_text())
    scored = record["scored"][INSTANCES][path.stem]
    timings = record["timings"]
    return {
        "algorithm": path.stem,
        "arm": path.parts[-3],
        "steps": record["steps"],
        "score": {kind: [100 * seed["score"] for seed in scored[rule]] for kind, rule in RULES.items()},
        "seconds": {"setup": timings["compiling"], "training": timings["training"] + timings["validating"]},
    }


def cell(values: list[float]) -> str:
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread} ({len(values)})"


def table(head: list[str], rows: list[list[str]]) -> str:
    written = ["| " + " | ".join(head) + " |", "| --- | --- |" + " ---: |" * (len(head) - 2)]
    return "\n".join([*written, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def development_runs() -> str:
    """Those of the prototype, and of the library by its preset `development`: a line for each run."""
    head = ["algorithm", "arm", "steps", *COLUMNS.values(), "largest gradient", "seconds"]
    rows = []
    for line in sorted(lines("2026-*.jsonl") + records(), key=lambda line: (line["algorithm"], line["arm"])):
        scores = [cell(line["score"][kind]) if kind in line["score"] else "" for kind in COLUMNS]
        seconds = line["seconds"]["setup"] + line["seconds"]["training"]
        largest = f"{line['gradient_norm']['largest']:.0f}" if "gradient_norm" in line else ""
        rest = [largest, f"{seconds:.0f}"]
        rows.append([line["algorithm"], f"`{line['arm']}`", str(line["steps"]), *scores, *rest])
    return table(head, rows)


def ablation() -> str:
    """What each system of the ablation has at size 64 by the rule of the column, and how far it is from TEAM+."""
    arms: dict[str, dict[str, list[float]]] = {}
    for path in sorted((FOLDER / ABLATION).glob("*/*.json")):
        arms.setdefault(path.parts[-2], {})[path.stem] = of_record(path)["score"]["sel_average"]
    whole = arms.pop(WHOLE, {})
    if not whole:
        return "It has not been run.\n"
    names = list(whole)
    rows = [[f"`{WHOLE}`", "", *(cell(whole[name]) for name in names)]]
    for arm, scores in sorted(arms.items()):
        both = [name for name in names if name in scores]
        gained = statistics.mean(statistics.mean(scores[name]) - statistics.mean(whole[name]) for name in both)
        cells = (cell(scores[name]) if name in scores else "" for name in names)
        rows.append([f"`{arm}`", f"{gained:+.1f} over {len(both)}", *cells])
    return table(["system", "difference", *names], rows)


def early_binary_search() -> str:
    """Averaged weights at sizes 16 and 32, the mean over all validations, and how far each system is from TEAM+."""
    systems: dict[str, dict[str, list[float]]] = {}
    for path in sorted((FOLDER / EARLY).glob("*/binary_search.json")):
        points = [point["average_scores"] for point in json.loads(path.read_text())["curve"]]
        systems[path.parts[-2]] = {
            size: [100 * statistics.mean(seed) for seed in zip(*(point[size] for point in points), strict=True)]
            for size in ("id", "ood")
        }
    whole = systems.pop(WHOLE, None)
    if whole is None:
        return "It has not been run.\n"
    rows = [[f"`{WHOLE}`", cell(whole["id"]), cell(whole["ood"]), "", ""]]
    for name, scores in sorted(systems.items(), key=lambda item: -statistics.mean(item[1]["ood"])):
        gained = statistics.mean(scores["ood"]) - statistics.mean(whole["ood"])
        error = standard_error(scores["ood"], whole["ood"])
        rows.append([f"`{name}`", cell(scores["id"]), cell(scores["ood"]), f"{gained:+.1f}", f"{gained / error:+.1f}"])
    return table(["system", "at 16", "at 32", "difference at 32", "in standard errors"], rows)


def runs_of_protocols() -> str:
    """Those of networks of the library under another protocol: a line for each validation of a run."""
    runs: dict[tuple, list[dict]] = {}
    for line in lines("steps-*.jsonl"):
        runs.setdefault((line["algorithm"], line["arm"], line["steps"]), []).append(line)
    head = ["algorithm", "arm", "steps", "at 32, average, last", "at 64, average, selected", "at 64, average, last",
            "at 64, raw, last"]  # fmt: skip
    rows = []
    for (algorithm, arm, steps), points in sorted(runs.items()):
        last = points[-1]
        done = str(steps) if last["step"] == steps else f"{last['step']} of {steps}"
        chosen = [
            max(points, key=lambda p, s=s: (p["average_scores"]["ood"][s], -p["average_losses"]["ood"][s], p["step"]))
            for s in range(len(last["seeds"]))
        ]
        columns = [
            last["average_scores"]["ood"],
            [point["average_scores"]["far"][s] for s, point in enumerate(chosen)],
            last["average_scores"]["far"],
            last["scores"]["far"],
        ]
        rows.append([algorithm, f"`{arm}`", done, *(cell([100 * value for value in column]) for column in columns)])
    return table(head, rows)


SEARCHED = [
    "binary_search", "dfs", "floyd_warshall", "heapsort", "insertion_sort", "kmp_matcher", "lcs_length",
    "matrix_chain_order", "mst_kruskal", "mst_prim", "naive_string_matcher", "optimal_bst", "quickselect",
    "strongly_connected_components", "topological_sort",
]  # fmt: skip
"""The algorithms that development runs have used."""


def official(system: str, rule: str, algorithm: str) -> list[float]:
    """The scores of all seeds on the official test, in percent."""
    record = json.loads((ROOT / "results" / system / f"{algorithm}.json").read_text())
    return [100 * seed["score"] for seed in record["test"][algorithm][rule]]


def column_of_team_plus() -> str:
    """The official test, row by row, and averages over all rows, those that the search used, and the others."""
    plus = ROOT / "results" / "plus"
    names = sorted(path.stem for path in (plus / "team_plus").glob("*.json"))
    ours = ["ood_average", "id_average", "last_average", "ood"]
    columns = {rule: {name: official("plus/team_plus", rule, name) for name in names} for rule in ours}
    columns["same preset"] = {name: official("plus/triplet_gmpnn_plus", "ood_average", name) for name in names}
    columns["baseline"] = {name: official("paper/triplet_gmpnn", "ood", name) for name in names}
    head = ["algorithm", "search used it", *(f"TEAM+, `{rule}`" for rule in ours), "Triplet-GMPNN, preset `plus`",
            "Triplet-GMPNN + OOD val, preset `paper`", "TEAM+ - `plus`", "TEAM+ - `paper`"]  # fmt: skip
    others = ["same preset", "baseline"]
    rows = []
    for name in names:
        used = "yes" if name in SEARCHED else "no"
        scores = [cell(column[name]) for column in columns.values()]
        rows.append([name, used, *scores, *(difference(columns["ood_average"], columns[key], name) for key in others)])
    unseen = [name for name in names if name not in SEARCHED]
    groups = {f"all {len(names)}": names, f"{len(SEARCHED)}, used": SEARCHED, f"{len(unseen)}, never used": unseen}
    for title, chosen in groups.items():
        means = {
            key: statistics.mean(statistics.mean(column[name]) for name in chosen) for key, column in columns.items()
        }
        gained = [f"{means['ood_average'] - means[key]:+.2f}" for key in others]
        rows.append([f"**{title}**", "", *(f"{mean:.2f}" for mean in means.values()), *gained])
    spreads = (f"{statistics.mean(map(statistics.stdev, column.values())):.1f}" for column in columns.values())
    rows.append([f"**mean spread over seeds, all {len(names)}**", "", *spreads, "", ""])
    return table(head, rows)


LEAST_LOSS = 2.0  # points between two sizes; below that a row is said to lose nowhere


def where_rows_lose() -> str:
    """What the chosen networks of TEAM+ score at 16, 32 and 64 nodes, and at which size a row loses most."""
    folder = ROOT / "results" / "plus" / "team_plus"
    sizes = ["at 16, validation", "at 32, validation", "at 64, test"]
    head = ["algorithm", "loses", "parameters", *sizes, "lowest seed at 64"]
    rows = []
    for name in sorted(path.stem for path in folder.glob("*.json")):
        record = json.loads((folder / f"{name}.json").read_text())
        points = {point["step"]: point["average_scores"] for point in record["curve"]}
        chosen = enumerate(record["selected"]["ood_average"]["steps"])
        near, far = zip(*((points[step]["id"][seed], points[step]["ood"][seed]) for seed, step in chosen), strict=True)
        tested = official("plus/team_plus", "ood_average", name)
        scores = [[100 * score for score in near], [100 * score for score in far], tested]
        means = [statistics.mean(values) for values in scores]
        lost = {"up to 16": 100 - means[0], "from 16 to 32": means[0] - means[1], "from 32 to 64": means[1] - means[2]}
        most = max(lost, key=lambda size: lost[size])
        where = f"{lost[most]:.1f} {most}" if lost[most] >= LEAST_LOSS else "nowhere"
        rows.append([name, where, f"{record['parameters']:,}", *map(cell, scores), f"{min(tested):.1f}"])
    return table(head, rows)


HINTS_OF = {
    "TEAM+": ("plus/team_plus", "ood_average"),
    "Triplet-GMPNN, preset `plus`": ("plus/triplet_gmpnn_plus", "ood_average"),
    "Triplet-GMPNN + OOD val, preset `paper`": ("paper/triplet_gmpnn", "ood"),
    "TEAM": ("paper/team", "ood"),
}
"""Whose hints are compared: the folder of each, and its rule."""


def hints_on_the_test(system: str, rule: str, algorithm: str) -> dict[str, list[float]]:
    """The share of right values of every hint that is not a scalar, by seed, in percent (of masks F1)."""
    path = ROOT / "results" / system / f"{algorithm}.json"
    if not path.exists():
        return {}
    spec = ALGORITHMS[algorithm].spec
    seeds = json.loads(path.read_text())["test_hints"][algorithm][rule]
    return {hint: [100 * seed[hint] for seed in seeds] for hint in seeds[0] if spec[hint].kind is not Kind.SCALAR}


def hints_that_are_right() -> str:
    """How far networks run the algorithm on 64 nodes and not only name its result: the mean over a row's hints."""
    head = ["algorithm", "result, TEAM+", *(f"hints, {name}" for name in HINTS_OF), "least, TEAM+"]
    rows, means = [], {name: [] for name in HINTS_OF}
    for algorithm in sorted(ALGORITHMS):
        row = [algorithm, cell(official(*HINTS_OF["TEAM+"], algorithm))]
        for name, (system, rule) in HINTS_OF.items():
            hints = hints_on_the_test(system, rule, algorithm)
            by_seed = [statistics.mean(seed) for seed in zip(*hints.values(), strict=True)]
            row.append(cell(by_seed) if hints else "")
            means[name] += [statistics.mean(by_seed)] if hints else []
        hints = hints_on_the_test(*HINTS_OF["TEAM+"], algorithm)
        least = min(hints, key=lambda hint: statistics.mean(hints[hint]))
        rows.append([*row, f"`{least}` {cell(hints[least])}"])
    averages = [f"{statistics.mean(known):.1f}" if len(known) == len(rows) else "" for known in means.values()]
    rows.append([f"**all {len(rows)}**", "", *averages, ""])
    return table(head, rows)


def with_true_hints() -> str:
    """How many hints are right if a network reads its own and if it reads true ones, in all and of the two worst."""
    found: dict[str, dict[str, dict]] = {}
    for line in lines("true_hints.jsonl"):
        found.setdefault(line["network"], {})[line["reads"]] = line
    rows = []
    for network, ways in sorted(found.items()):
        if len(ways) == 2:
            own, true = ways["own"]["hints"], ways["true"]["hints"]
            means = (f"{100 * statistics.mean(hints.values()):.1f}" for hints in (own, true))
            least = sorted(own, key=lambda hint: own[hint])[:2]
            named = ", ".join(f"`{hint}` {100 * own[hint]:.1f} to {100 * true[hint]:.1f}" for hint in least)
            rows.append([network.split("/")[1], named, *means, f"{100 * ways['own']['before']:.0f}"])
    head = ["algorithm", "the two least", "own hints", "true hints", "right up to, % of the steps"]
    return table(head, rows)


def difference(scores: dict[str, list[float]], others: dict[str, list[float]], name: str) -> str:
    """How far a row is from another column's, with a * if lower by more than two points and the standard error."""
    gained = statistics.mean(scores[name]) - statistics.mean(others[name])
    return f"{gained:+.1f}" + (" *" if gained < -2 - standard_error(scores[name], others[name]) else "")


def standard_error(one: list[float], other: list[float]) -> float:
    """That of the difference of two means over seeds."""
    return sum(statistics.variance(values) / len(values) for values in (one, other)) ** 0.5


def between_marks(text: str, name: str, content: str) -> str:
    begin, end = f"<!-- {name}: begin; {WRITTEN} -->\n", f"<!-- {name}: end -->"
    before, rest = text.split(begin)
    return before + begin + content + end + rest.split(end)[1]


def main() -> int:
    text = DOCUMENT.read_text()
    written = between_marks(text, "development runs", development_runs())
    written = between_marks(written, "runs of protocols", runs_of_protocols())
    written = between_marks(written, "column of TEAM+", column_of_team_plus())
    written = between_marks(written, "where rows lose", where_rows_lose())
    written = between_marks(written, "hints that are right", hints_that_are_right())
    written = between_marks(written, "with true hints", with_true_hints())
    written = between_marks(written, "ablation", ablation())
    written = between_marks(written, "early binary search", early_binary_search())
    if "--check" in sys.argv:
        return 0 if written == text else 1
    DOCUMENT.write_text(written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
