"""Files are written whole or not at all."""

from pathlib import Path

import pytest

from narkit.files import replacing, write_whole, write_with_folder


def test_an_error_leaves_what_was_there(tmp_path: Path) -> None:
    place = tmp_path / "record.json"
    write_whole(place, "first")
    with pytest.raises(RuntimeError, match="half way"), replacing(place) as file:
        file.write(b"sec")
        raise RuntimeError("half way")
    assert place.read_text() == "first"
    assert list(tmp_path.iterdir()) == [place]


def test_others_may_read_it(tmp_path: Path) -> None:
    plain, place = tmp_path / "plain", tmp_path / "whole"
    plain.write_text("")
    write_whole(place, b"\x00")
    assert place.read_bytes() == b"\x00"
    assert place.stat().st_mode == plain.stat().st_mode


def test_folders_are_made_only_where_asked_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "a" / "b.json", "{}")
    write_with_folder(tmp_path / "a" / "b.json", "{}")
    assert (tmp_path / "a" / "b.json").read_text() == "{}"
