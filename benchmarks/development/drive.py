"""Several development runs at a time on one GPU: `python drive.py JOBS FOLDER --workers 6 --seconds 560`.

JOBS is a file with a line for every run of `protocol.py`: algorithm, arm, steps, number of seeds, and the seconds that
must be left for it to be begun. A run adds lines to FOLDER/results.jsonl at every validation, so a time limit loses
only what comes after. A line that begins with `!` is any other command, in place of a run.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs")
    parser.add_argument("folder")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=560)
    parser.add_argument("--memory", type=float, default=0.74, help="the share of the GPU's memory for all runs")
    options = parser.parse_args()
    folder, end = Path(options.folder), time.time() + options.seconds
    folder.mkdir(parents=True, exist_ok=True)
    waiting = [line.split() for line in Path(options.jobs).read_text().splitlines() if line.strip()]
    memory = str(round(options.memory / options.workers, 3))
    environment = os.environ | {"XLA_PYTHON_CLIENT_MEM_FRACTION": memory}
    running: list[tuple[subprocess.Popen, list[str]]] = []
    while (waiting or running) and time.time() < end - 4:
        for process, job in running:
            if process.poll():
                print("failed:", *job, flush=True)
        running = [(process, job) for process, job in running if process.poll() is None]
        while waiting and len(running) < options.workers:
            job, left = waiting.pop(0), end - time.time()
            if job[0] == "!":
                command = job[1:]
            elif left < float(job[4]):
                print("not begun:", *job, flush=True)
                continue
            else:
                command = [sys.executable, HERE / "protocol.py", *job[:3], folder / "results.jsonl"]
                command += ["--seeds", job[3]]
            with (folder / f"errors_{job[0].strip('!')}_{job[1].replace('/', '_')}.txt").open("w") as errors:
                running.append((subprocess.Popen(command, env=environment, stderr=errors), job))
        time.sleep(0.3)
    for process, job in running:
        process.kill()
        print("ended by the time limit:", *job, flush=True)


if __name__ == "__main__":
    main()
