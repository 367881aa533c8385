"""One example per algorithm: the command line, and the files that it reads. Tests run them; help texts show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

CITIES = """from,to,km
Ulm,Augsburg,80
Ulm,Stuttgart,93
Augsburg,München,66
Stuttgart,Karlsruhe,78
Stuttgart,Würzburg,150
Karlsruhe,Frankfurt,140
Würzburg,Frankfurt,120
Würzburg,Nürnberg,110
Nürnberg,München,170
"""
LINKS = "from,to\nhome,news\nnews,archive\narchive,news\nhome,about\nabout,team\nteam,about\n"
DRESSING = "from,to\nshirt,tie\ntie,jacket\ntrousers,shoes\ntrousers,belt\nbelt,jacket\nsocks,shoes\n"
COURSES = "from,to,days\nstart,design,3\nstart,order,6\ndesign,build,2\norder,build,1\nbuild,test,4\ndesign,test,8\n"
POINTS = "name,x,y\nlake,2,1\nmill,7,3\ntower,5,8\nchurch,4,4\nfarm,1,6\ninn,6,5\n"
SEGMENTS = "x,y\n0,0\n4,4\n0,3\n5,1\n"
TALKS = "talk,start,finish\nopening,9,10\npanel,9.5,11\ndemo,10,10.5\nkeynote,10.5,12\nposters,11,13\nclosing,12,12.5\n"
CHORES = "chore,deadline,penalty\ntax,1,500\nrent,2,300\nmail,2,20\nbins,1,40\nbike,4,15\n"


@dataclass(frozen=True)
class Example:
    """A command of `narkit solve` and the files, by name, that it reads."""

    arguments: str
    files: Mapping[str, str] = field(default_factory=dict)

    def command(self, algorithm: str) -> str:
        return f"narkit solve {algorithm} {self.arguments}"


_CITIES = {"cities.csv": CITIES}
_LINKS = {"links.csv": LINKS}
_POINTS = {"points.csv": POINTS}

EXAMPLES: Mapping[str, Example] = {
    "activity_selector": Example("--activities talks.csv", {"talks.csv": TALKS}),
    "articulation_points": Example("--edges cities.csv", _CITIES),
    "bellman_ford": Example("--edges cities.csv --source Ulm", _CITIES),
    "bfs": Example("--edges cities.csv --source Ulm", _CITIES),
    "binary_search": Example("2 3 5 7 11 13 --target 7"),
    "bridges": Example("--edges cities.csv", _CITIES),
    "bubble_sort": Example("5 3 1 2"),
    "dag_shortest_paths": Example("--edges courses.csv --source start", {"courses.csv": COURSES}),
    "dfs": Example("--edges links.csv", _LINKS),
    "dijkstra": Example("--edges cities.csv --source Ulm", _CITIES),
    "find_maximum_subarray_kadane": Example("1 -4 3 5 -2 6 -8"),
    "floyd_warshall": Example("--edges cities.csv", _CITIES),
    "graham_scan": Example("--points points.csv", _POINTS),
    "heapsort": Example("5 3 1 2"),
    "insertion_sort": Example("pear fig apple plum"),
    "jarvis_march": Example("--points points.csv", _POINTS),
    "kmp_matcher": Example("--text abacabadabacaba --pattern abad"),
    "lcs_length": Example("--first gattaca --second tacatga"),
    "matrix_chain_order": Example("30 35 15 5 10 20 25"),
    "minimum": Example("31 41 59 26 53"),
    "mst_kruskal": Example("--edges cities.csv", _CITIES),
    "mst_prim": Example("--edges cities.csv --source Ulm", _CITIES),
    "naive_string_matcher": Example("--text gattacagattaca --pattern tacag"),
    "optimal_bst": Example("--probabilities 15,10,5,10,20 --gaps 5,10,5,5,5,10"),
    "quickselect": Example("31 41 59 26 53"),
    "quicksort": Example("5 3 1 2"),
    "segments_intersect": Example("--points segments.csv", {"segments.csv": SEGMENTS}),
    "strongly_connected_components": Example("--edges links.csv", _LINKS),
    "task_scheduling": Example("--tasks chores.csv", {"chores.csv": CHORES}),
    "topological_sort": Example("--edges dressing.csv", {"dressing.csv": DRESSING}),
}
