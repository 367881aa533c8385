"""Dynamic programming: tables that are filled from the solutions of smaller subproblems."""

import numpy as np
from numba import njit

from narkit.algorithms import arguments, instances
from narkit.algorithms.recording import (
    fill,
    fill_identity_order,
    fill_matrix,
    fill_positions,
    fill_two_orders,
    fill_two_strings,
    next_step,
)
from narkit.algorithms.shared_probes import GIVEN_ORDER, POSITION
from narkit.spec import algorithm, constant, edge, node

CATEGORY = "dynamic programming"

DIAGONAL, UP, LEFT, BLANK = 0, 1, 2, 3  # where a cell of the LCS table got its value; blank: no cell is here
ARROW = "edge from a character of the first string to one of the second: where the table's cell got its value"
LARGEST_DIMENSION = 1e12  # of a matrix: costs, sums of products of three, must stay within float32
UNREACHABLE_COST = 1e9  # stands for infinity, as in the benchmark: sums of probabilities stay far below


@algorithm(
    category=CATEGORY,
    inputs={"pos": POSITION, "p": node("scalar", "dimensions: matrix i has p[i - 1] rows and p[i] columns")},
    hints={
        "pred_h": GIVEN_ORDER,
        "m": edge("scalar", "cheapest cost found so far of multiplying the matrices i to j"),
        "s_h": edge("pointer", "the last matrix of the left factor in the cheapest product found so far"),
        "msk": edge("mask", "whether some way of multiplying the matrices i to j was found"),
    },
    outputs={"s": edge("pointer", "the last matrix of the left factor in the cheapest product of the matrices i to j")},
    arguments={"p": arguments.keys(arguments.within(0, LARGEST_DIMENSION), what="a vector of matrix dimensions")},
    sampler=instances.keys,
)
def matrix_chain_order(p, probes):
    """Matrix-chain multiplication (CLRS 15.2).

    One hint step is one round over the whole table, in which every chain is split into chains known before the
    round; so twice as long chains become known in each. The rounds end when no cost changes any more.
    """
    num_nodes = len(p)
    fill_positions(probes.pos)
    fill(probes.p, p)
    fill_identity_order(probes.pred_h)

    m = np.full((num_nodes, num_nodes), np.inf)  # infinite: no way is known
    s = np.zeros((num_nodes, num_nodes), np.int16)
    for i in range(1, num_nodes):
        m[i, i] = 0.0
    m_before = m.copy()

    def snapshot():
        step = next_step(probes)
        fill_matrix(probes.s_h[step], s)
        for i in range(1, num_nodes):
            for j in range(i, num_nodes):
                if m[i, j] < np.inf:  # a cost is shown as zero until it is known
                    probes.m[step, i, j] = m[i, j]
                    probes.msk[step, i, j] = 1

    changed = True
    while changed:
        snapshot()
        changed = False
        fill_matrix(m_before, m)
        for i in range(1, num_nodes):
            for k in range(i, num_nodes - 1):
                if m_before[i, k] < np.inf:
                    right = slice(k + 1, num_nodes)  # the last matrix of the right factor
                    rows_times_columns = p[i - 1] * p[k]
                    _split_after(
                        k,
                        m_before[i, k],
                        m_before[k + 1, right],
                        rows_times_columns,
                        p[right],
                        m[i, right],
                        s[i, right],
                    )
            for j in range(i + 1, num_nodes):
                if m[i, j] < m_before[i, j]:  # a cost of zero that becomes known shows no change
                    changed |= m_before[i, j] < np.inf or m[i, j] > 0.0
    fill_matrix(probes.s, s)


@njit
def _split_after(k, left_cost, right_costs, rows_times_columns, p, m, s):
    """Lets all chains that start at one matrix be split after matrix k: better costs go to m, and k to s."""
    for j in range(len(m)):
        q = left_cost + right_costs[j] + rows_times_columns * p[j]
        if q < m[j]:
            m[j] = q
            s[j] = k


@algorithm(
    category=CATEGORY,
    inputs={
        "string": node("mask", "0: the character is of the first string; 1: of the second"),
        "pos": node("scalar", "position of the character within its string"),
        "key": node("categorical", "the character", classes=instances.ALPHABET_SIZE),
    },
    hints={
        "pred_h": constant(node("pointer", "the character before this one in its string; the first: itself")),
        "b_h": edge("categorical", f"{ARROW} so far (0: diagonal, 1: above, 2: left, 3: no cell)", classes=4),
        "c": edge("scalar", "length of the longest common subsequence up to these two characters, as found so far"),
    },
    outputs={"b": edge("categorical", f"{ARROW} (0: diagonal, 1: above, 2: left, 3: no cell)", classes=4)},
    arguments={"x": arguments.string(instances.ALPHABET_SIZE), "y": arguments.string(instances.ALPHABET_SIZE)},
    sampler=instances.two_strings,
    nodes_of_instance=lambda x, y: len(x) + len(y),
)
def lcs_length(x, y, probes):
    """Longest common subsequence of two strings (CLRS 15.4).

    The table has no row and column of zeros: its first row and column are filled before the first step. One hint
    step is one round over all other cells, each computed from its neighbours before the round. The rounds end when
    no length changes any more; arrows that still change in the last one are seen in the output only.
    """
    rows, columns = len(x), len(y)
    fill_two_strings(probes, x, y)
    fill_two_orders(probes.pred_h, rows)

    c = np.zeros((rows, columns), np.int64)
    b = np.full((rows, columns), DIAGONAL, np.int8)
    for i in range(rows):
        if x[i] == y[0]:
            c[i, 0] = 1
        else:
            c[i, 0], b[i, 0] = c[max(0, i - 1), 0], UP
    for j in range(columns):
        if x[0] == y[j]:
            c[0, j] = 1
        elif j > 0 and c[0, j - 1] == 1:
            c[0, j], b[0, j] = 1, LEFT
        else:
            b[0, j] = UP
    c_before = c.copy()

    # Cells are edges from the first to the second string; everywhere else the class `blank` does not count.
    num_nodes = rows + columns
    arrows = np.zeros((num_nodes, num_nodes, 4), np.int8)
    arrows[:, :rows, BLANK] = -1
    arrows[rows:, rows:, BLANK] = -1

    def draw_arrows():
        for i in range(rows):
            for j in range(columns):
                for arrow in range(BLANK):
                    arrows[i, rows + j, arrow] = b[i, j] == arrow

    def snapshot():
        step = next_step(probes)
        draw_arrows()
        fill(probes.b_h[step].reshape(-1), arrows.reshape(-1))
        for i in range(rows):
            fill(probes.c[step, i, rows:], c[i])

    changed = True
    while changed:
        snapshot()
        changed = False
        fill_matrix(c_before, c)
        for i in range(1, rows):
            for j in range(1, columns):
                if x[i] == y[j]:
                    c[i, j], b[i, j] = c_before[i - 1, j - 1] + 1, DIAGONAL
                elif c_before[i - 1, j] >= c_before[i, j - 1]:
                    c[i, j], b[i, j] = c_before[i - 1, j], UP
                else:
                    c[i, j], b[i, j] = c_before[i, j - 1], LEFT
                changed |= c[i, j] != c_before[i, j]
    draw_arrows()
    fill(probes.b.reshape(-1), arrows.reshape(-1))


@algorithm(
    category=CATEGORY,
    inputs={
        "pos": POSITION,
        "p": node("scalar", "probability that the search is for key i; the last node has no key: 0"),
        "q": node("scalar", "probability that the search ends in the gap before key i; the last node: after all keys"),
    },
    hints={
        "pred_h": GIVEN_ORDER,
        "root_h": edge("pointer", "root of the best tree of the keys i to j - 1, once it is known"),
        "e": edge("scalar", "expected cost of a search in the best tree of the keys i to j - 1, once it is known"),
        "w": edge("scalar", "probability of the keys i to j - 1 and the gaps around them, once it is known"),
        "msk": edge("mask", "whether the best tree of the keys i to j - 1 is known"),
    },
    outputs={"root": edge("pointer", "root of the best tree of the keys i to j - 1")},
    arguments={
        "p": arguments.keys(arguments.nonnegative, what="a vector of the keys' probabilities"),
        "q": arguments.keys(
            arguments.nonnegative, arguments.same_length_as("p", 1), what="a vector of the gaps' probabilities"
        ),
    },
    sampler=instances.search_probabilities,
    min_size=1,
    nodes_of_size=lambda size: size + 1,
    nodes_of_instance=lambda p, q: len(q),
)
def optimal_bst(p, q, probes):
    """Optimal binary search tree (CLRS 15.5).

    One hint step is one size of trees: the best trees of all runs of that many neighbouring keys.
    """
    num_keys, num_nodes = len(p), len(q)
    fill_positions(probes.pos)
    fill(probes.p, p)
    fill(probes.q, q)
    fill_identity_order(probes.pred_h)

    e = np.zeros((num_nodes, num_nodes))
    w = np.zeros((num_nodes, num_nodes))
    root = np.zeros((num_nodes, num_nodes), np.int16)
    known = np.zeros((num_nodes, num_nodes), np.int8)
    e_columns = np.zeros((num_nodes, num_nodes))  # the columns of e, as rows
    for i in range(num_nodes):
        e[i, i] = e_columns[i, i] = w[i, i] = q[i]
        known[i, i] = 1

    def snapshot():
        step = next_step(probes)
        fill_matrix(probes.root_h[step], root)
        fill_matrix(probes.e[step], e)
        fill_matrix(probes.w[step], w)
        fill_matrix(probes.msk[step], known)

    snapshot()
    for length in range(1, num_keys + 1):
        for i in range(num_keys - length + 1):
            j = i + length
            w[i, j] = w[i, j - 1] + p[j - 1] + q[j]
            e[i, j], r = _best_root(e[i, i:j], e_columns[j, i + 1 : j + 1], w[i, j])
            e_columns[j, i] = e[i, j]
            root[i, j] = i + r
            known[i, j] = 1
        snapshot()
    fill_matrix(probes.root, root)


@njit
def _best_root(left_costs, right_costs, weight):
    """Returns the least cost of a tree whose root splits its keys into two subtrees, and that root, counted from 0."""
    cheapest, root = UNREACHABLE_COST, 0
    for r in range(len(left_costs)):
        cost = left_costs[r] + right_costs[r] + weight
        if cost < cheapest:
            cheapest, root = cost, r
    return cheapest, root
