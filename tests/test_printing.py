"""Lines and tables on a console."""

import io

from rich.console import Console

from narkit.printing import print_line, print_table


def printed(width: int = 40) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, width=width), file


def test_a_line_is_printed_as_it_is() -> None:
    console, file = printed()
    text = "[bold]a long line with [brackets] and numbers, 1 2 3, which is not folded at forty letters"
    print_line(console, text)
    assert file.getvalue() == f"{text}\n"


def test_names_stand_on_the_left_and_numbers_on_the_right() -> None:
    console, file = printed()
    print_table(console, ("name", "value"), [("bfs", "1"), ("[dfs]", "12,345")], "A title")
    lines = file.getvalue().splitlines()
    assert lines[0].strip() == "A title"
    assert "│ bfs   │      1 │" in lines and "│ [dfs] │ 12,345 │" in lines
