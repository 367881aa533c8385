"""Writes the tables of docs/beyond.md from the lines in results/development: `python benchmarks/development/tables.py`.

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


def lines() -> list[dict]:
    files = sorted((ROOT / "results" / "development").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def cell(values: list[float]) -> str:
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread} ({len(values)})"


def table() -> str:
    head = ["algorithm", "arm", "steps", *COLUMNS.values(), "largest gradient", "seconds"]
    rows = ["| " + " | ".join(head) + " |", "| --- | --- |" + " ---: |" * (len(head) - 2)]
    for line in sorted(lines(), key=lambda line: (line["algorithm"], line["arm"])):
        scores = [cell(line["score"][kind]) if kind in line["score"] else "" for kind in COLUMNS]
        seconds = line["seconds"]["setup"] + line["seconds"]["training"]
        rest = [f"{line['gradient_norm']['largest']:.0f}", f"{seconds:.0f}"]
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
