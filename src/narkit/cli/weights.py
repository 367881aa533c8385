"""`narkit weights`: the published networks."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from narkit.cli.choices import AsJson, examples, known_algorithm, plain_errors

app = typer.Typer()


@app.command("weights", epilog=examples("narkit weights", "narkit weights dijkstra", "narkit weights --json"))
def weights(
    algorithm: Annotated[str | None, typer.Argument(metavar="ALGORITHM", help="Only those for this algorithm.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the published weights, the best for each algorithm first: score, size, SHA-256 and record.

    The score is that on the official test split. NARKIT_WEIGHTS names another folder to look in.
    """
    from narkit.solve.weights import folders, published

    with plain_errors():
        found = published(None if algorithm is None else known_algorithm(algorithm))
        rows = [entry.summary() for entry in sorted(found, key=lambda entry: entry.algorithm)]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    if not rows:
        typer.echo(f"no weights in {', '.join(map(str, folders()))}")
        return
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        score = "not tested" if row["score"] is None else f"{100 * row['score']:8.2f} %"
        state = "" if row["agrees_with_record"] is not False else "  DIFFERS FROM ITS RECORD"
        size = f"{row['bytes'] / 1e6:6.2f} MB"
        typer.echo(f"{row['name']:{width}}  {score:>10}  {size}  {row['sha256']}  {row['record'] or '-'}{state}")
