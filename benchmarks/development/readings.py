"""TEAM's second reading: which of its four variants is trained on all thirty algorithms, by a rule fixed beforehand.

    PYTHONPATH=benchmarks/development narkit --import readings sweep --seeds 3 \
        --systems second_to_sender,second_from_sender,second_to_receiver,second_from_receiver \
        --algorithms insertion_sort,mst_prim,matrix_chain_order,binary_search --no-weights \
        --out results/development/readings
    python benchmarks/development/readings.py docs/reproduction.md

The first command trains three seeds of each, 100 and up, on 4,000 steps of the preset `paper` and scores them at size
64 on instances of their own; the second writes the table, and which variant has the highest mean, into the page. The
variants differ in the edges that lead to the third node or from it, and in whose edge is mixed, the sender's or the
receiver's; all have as many parameters as TEAM to the last one.
"""

import json
import statistics
import sys
from dataclasses import replace
from pathlib import Path

from tables import cell

import narkit
from narkit.files import write_whole

ALGORITHMS = ("insertion_sort", "mst_prim", "matrix_chain_order", "binary_search")
"""Short rows, on all of which our TEAM is below the paper's."""
FOLDER = Path(__file__).parents[2] / "results" / "development" / "readings"
BEGIN = "<!-- second reading: begin; written by benchmarks/development/readings.py: change the runs, not this -->\n"
END = "<!-- second reading: end -->"
RULE, INSTANCES = "ood", "dev"

READING = narkit.SYSTEMS["team_second_reading"]
AS_IN_THE_PAPER = {"average": 0.0, "skipped_steps": 0, "hint_gradient": 1.0}  # in place of what `development` has
VARIANTS = {
    f"second_{third_edges}_{values_of}": replace(
        READING,
        name=f"second_{third_edges}_{values_of}",
        title=f"edges {third_edges} third nodes, values of the {values_of}'s edges",
        options={**READING.options, "third_edges": third_edges, "values_of": values_of},
        preset="development",
        settings=AS_IN_THE_PAPER,
        colour=None,
    )
    for values_of in ("sender", "receiver")
    for third_edges in ("to", "from")
}
for _system in VARIANTS.values():
    narkit.SYSTEMS.add(_system)


def scores(folder: Path) -> dict[str, dict[str, list[float]]]:
    """By variant and algorithm, what the checkpoints that size 32 chooses have at size 64, in percent, by seed."""
    found: dict[str, dict[str, list[float]]] = {}
    for path in sorted(folder.glob("*/*.json")):
        scored = json.loads(path.read_text())["scored"][INSTANCES][path.stem][RULE]
        found.setdefault(path.parts[-2], {})[path.stem] = [100 * seed["score"] for seed in scored]
    return found


def section(found: dict[str, dict[str, list[float]]]) -> str:
    """The table, and which variant the rule takes."""
    if not found:
        return "It has not been run.\n"
    lines = [f"| variant | {' | '.join(ALGORITHMS)} | mean |", f"| --- |{' ---: |' * (len(ALGORITHMS) + 1)}"]
    means = {}
    for name in (name for name in VARIANTS if name in found):
        rows = found[name]
        cells = [cell(rows[row]) if row in rows else "not run yet" for row in ALGORITHMS]
        if all(row in rows for row in ALGORITHMS):
            means[name] = statistics.mean(statistics.mean(rows[row]) for row in ALGORITHMS)
        mean = f"{means[name]:.1f}" if name in means else ""
        lines.append(f"| {VARIANTS[name].title} | {' | '.join(cells)} | {mean} |")
    if set(means) != set(VARIANTS):
        return "\n".join([*lines, "", "Not all of it has been run, so none is taken yet.", ""])
    taken = max(means, key=means.__getitem__)
    return "\n".join([*lines, "", f"Taken: {VARIANTS[taken].title}.", ""])


def main() -> None:
    page = Path(sys.argv[1])
    before, rest = page.read_text().split(BEGIN)
    write_whole(page, before + BEGIN + section(scores(FOLDER)) + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
