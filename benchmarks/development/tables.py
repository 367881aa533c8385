"""Writes the tables of docs/beyond.md from what lies in results/development: `python benchmarks/development/tables.py`.

There are lines that the scripts here wrote, and records of the preset `development` that `narkit sweep --preset
development --out results/development/ARM` wrote, where ARM is what the arm is called here.

`--check` writes nothing and fails if the document is not what the results say.
"""

import json
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "beyond.md"
BEGIN, END = (
    "<!-- development runs: begin; written by benchmarks/development/tables.py -->\n",
    "<!-- development runs: end -->",
)
COLUMNS = {
    "sel_raw": "raw, selected",
    "sel_average": "average, selected",
    "last_a9": "average t/9, last",
    "last_a4": "average t/4, last",
}


FOLDER = ROOT / "results" / "development"
RULES = {"sel_raw": "ood", "sel_average": "ood_average", "last_a9": "last_average"}  # what the columns are in records
INSTANCES = "dev"  # the set that development runs are scored on


def lines() -> list[dict]:
    files = sorted(FOLDER.glob("*.jsonl"))
    found = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return found + [of_record(path) for path in sorted(FOLDER.glob("*/*/*.json"))]


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


def table() -> str:
    head = ["algorithm", "arm", "steps", *COLUMNS.values(), "largest gradient", "seconds"]
    rows = ["| " + " | ".join(head) + " |", "| --- | --- |" + " ---: |" * (len(head) - 2)]
    for line in sorted(lines(), key=lambda line: (line["algorithm"], line["arm"])):
        scores = [cell(line["score"][kind]) if kind in line["score"] else "" for kind in COLUMNS]
        seconds = line["seconds"]["setup"] + line["seconds"]["training"]
        largest = f"{line['gradient_norm']['largest']:.0f}" if "gradient_norm" in line else ""
        rest = [largest, f"{seconds:.0f}"]
        rows.append(
            "| " + " | ".join([line["algorithm"], f"`{line['arm']}`", str(line["steps"]), *scores, *rest]) + " |"
        )
    return "\n".join(rows) + "\n"


def main() -> int:
    text = DOCUMENT.read_text()
    before, rest = text.split(BEGIN)
    written = before + BEGIN + table() + END + rest.split(END)[1]
    if "--check" in sys.argv:
        return 0 if written == text else 1
    DOCUMENT.write_text(written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
