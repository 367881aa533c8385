"""What the cases read: good files, bad ones, and good ones with a mutation."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from hypothesis import strategies as st

GOLDEN = Path(__file__).parents[1] / "golden" / "formats" / "0.1.0"
GIVEN, OUT = "given", "out"  # commands run in the second and may change nothing outside of it

EDGES = "a,b,1\nb,c,2\na,c,5\nc,d,1\n"
MATRIX = "0,1,0\n1,0,2\n0,2,0\n"
TABLES = {
    "edges.csv": EDGES,
    "matrix.csv": MATRIX,
    "points.csv": "0,0\n1,0\n0,1\n1,1\n0.4,0.5\n",
    "activities.csv": "0.1,0.4\n0.3,0.6\n0.5,0.9\n",
    "tasks.csv": "1,0.5\n2,0.2\n2,0.7\n",
    "instances.jsonl": '{"keys": [3, 1, 2]}\n{"keys": [5, 4]}\n',
    "README.md": "# A page\n\n<!-- results: begin -->\n<!-- results: end -->\n",
    "empty.csv": "",
    "words.csv": "x\n",
}


def prepare(folder: Path) -> None:
    """Makes the files that all cases share."""
    given = folder / GIVEN
    given.mkdir(parents=True)
    for name, text in TABLES.items():
        (given / name).write_text(text)
    (given / "bytes.bin").write_bytes(bytes(range(256)))
    (given / "link").symlink_to("nowhere")
    shutil.copytree(GOLDEN / "stopped", given / "run")
    shutil.copytree(GOLDEN / "records", given / "records")


def refresh(folder: Path) -> Path:
    """An empty folder for what a command writes, with copies of what it may change."""
    out = folder / OUT
    shutil.rmtree(out, ignore_errors=True)
    (out / "folder").mkdir(parents=True)
    shutil.copytree(folder / GIVEN / "records", out / "records")
    shutil.copytree(folder / GIVEN / "run", out / "stopped")
    shutil.copy(folder / GIVEN / "README.md", out / "README.md")
    return out


SMALL_WORDS = (",", "\n", '"', "nan", "1e999", "-0", "\ufeff", "\0")


def mutated_bytes(draw: st.DrawFn, content: bytes) -> bytes:
    """A file with something wrong: cut, padded, a byte changed, a part doubled or gone, something put in, or empty."""
    place = draw(st.integers(0, len(content)))
    end = min(len(content), place + draw(st.integers(1, 64)))
    match draw(st.integers(0, 6)):
        case 0:
            return content[:place]
        case 1:
            return content + draw(st.binary(min_size=1, max_size=40))
        case 2:
            return content[:place] + draw(st.binary(min_size=1, max_size=1)) + content[place + 1 :]
        case 3:
            return content[:end] + content[place:]
        case 4:
            return content[:place] + content[end:]
        case 5:
            words = draw(
                st.one_of(st.text(max_size=6), st.sampled_from([",", "\n", '"', "nan", "1e999", "-0", "\ufeff", "\0"]))
            )
            return content[:place] + words.encode(errors="replace") + content[place:]
    return b""


def mutated_weights(draw: st.DrawFn, content: bytes) -> bytes:
    """Weights whose metadata or one of whose numbers are others, in a file that is in order otherwise."""
    length = int.from_bytes(content[:8], "little")
    header, numbers = json.loads(content[8 : 8 + length]), content[8 + length :]
    if draw(st.booleans()):
        place = draw(st.integers(0, len(numbers) - 4))
        infinite = draw(st.sampled_from([b"\x00\x00\xc0\x7f", b"\x00\x00\x80\xff", b"\xff\xff\xff\xff"]))
        numbers = numbers[:place] + infinite + numbers[place + 4 :]
    else:
        about = header["__metadata__"]
        about["narkit"] = mutated_json(draw, about["narkit"].encode()).decode()
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + numbers


JUNK = (None, True, -1, 0, 7.5, 1e300, "", "x", [], {}, [1, "a"], {"x": 1}, "NaN", 2**70, float("nan"), float("inf"))


def mutated_json(draw: st.DrawFn, content: bytes) -> bytes:
    """A JSON file in which one value, at any depth, is another, is gone, or has another name."""
    value = json.loads(content)
    place = value
    for _ in range(draw(st.integers(1, 5))):
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = draw(st.sampled_from(keys))
        if isinstance(place[key], dict | list) and place[key] and draw(st.integers(0, 9)) < 7:
            place = place[key]
            continue
        match draw(st.integers(0, 2)):
            case 0:
                place[key] = draw(st.one_of(st.sampled_from(JUNK), st.integers(), st.floats(), st.text(max_size=8)))
            case 1:
                del place[key]
            case _ if isinstance(place, dict):
                place[f"{key}_"] = place.pop(key)
        break
    return json.dumps(value).encode()
