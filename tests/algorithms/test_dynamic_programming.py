"""Matrix chains, common subsequences and search trees against plain recursion."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narkit.data.execution import run, sample
from narkit.errors import InstanceError

check = settings(max_examples=40, deadline=None)
dimensions = st.lists(st.integers(1, 9).map(float), min_size=2, max_size=9)
strings = st.lists(st.integers(0, 3), min_size=1, max_size=8)
DIAGONAL, UP, LEFT, BLANK = range(4)


def cheapest_product(p, i, j):
    """The cost of multiplying the matrices i to j, by trying every split."""

    @functools.cache
    def cost(i, j):
        return min((cost(i, k) + cost(k + 1, j) + p[i - 1] * p[k] * p[j] for k in range(i, j)), default=0.0)

    return cost(i, j)


@check
@given(p=dimensions)
def test_matrix_chain_splits_give_the_cheapest_product(p):
    s = run("matrix_chain_order", p=p).outputs["s"][0]

    def cost_by_splits(i, j):
        if i == j:
            return 0.0
        k = s[i, j]
        assert i <= k < j
        return cost_by_splits(i, k) + cost_by_splits(k + 1, j) + p[i - 1] * p[k] * p[j]

    assert cost_by_splits(1, len(p) - 1) == cheapest_product(p, 1, len(p) - 1)


@check
@given(p=dimensions)
def test_matrix_chain_hints_end_in_the_solution(p):
    batch = run("matrix_chain_order", p=p)
    m, known = batch.hints["m"][:, 0], batch.hints["msk"][:, 0]
    for i in range(1, len(p)):
        for j in range(i, len(p)):
            assert m[-1, i, j] == cheapest_product(p, i, j)
    assert known[-1].sum() == len(p) * (len(p) - 1) // 2
    assert (np.diff(known, axis=0) >= 0).all()
    assert (m[known == 0] == 0).all()
    np.testing.assert_array_equal(batch.hints["s_h"][-1], batch.outputs["s"])


def test_textbook_matrix_chain():
    p = np.array([30.0, 35.0, 15.0, 5.0, 10.0, 20.0, 25.0])  # CLRS, figure 15.5
    batch = run("matrix_chain_order", p=p)
    assert batch.hints["m"][-1, 0, 1, 6] == 15125
    s = batch.outputs["s"][0]
    assert [s[1, 6], s[1, 3], s[4, 6]] == [3, 1, 5]


def test_one_matrix_needs_no_product():
    batch = run("matrix_chain_order", p=[2.0, 3.0])
    assert batch.lengths.tolist() == [1]
    assert not batch.outputs["s"].any()


def test_costs_of_zero_end_the_rounds_early_as_in_the_benchmark():
    batch = run("matrix_chain_order", p=[0.0] * 5)
    assert batch.lengths.tolist() == [1]
    assert batch.hints["msk"][0, 0].sum() == 4


def common_subsequence(x, y):
    """The classic table with a row and a column of zeros."""
    c = np.zeros((len(x) + 1, len(y) + 1), int)
    for i in range(len(x)):
        for j in range(len(y)):
            c[i + 1, j + 1] = c[i, j] + 1 if x[i] == y[j] else max(c[i, j + 1], c[i + 1, j])
    return c[1:, 1:]


@check
@given(x=strings, y=strings)
def test_lcs_lengths_end_in_the_classic_table(x, y):
    c = run("lcs_length", x=x, y=y).hints["c"][:, 0]
    np.testing.assert_array_equal(c[-1, : len(x), len(x) :], common_subsequence(x, y))
    outside = np.ones(c.shape[1:], bool)
    outside[: len(x), len(x) :] = False
    assert not c[:, outside].any()


@check
@given(x=strings, y=strings)
def test_following_the_arrows_spells_a_longest_common_subsequence(x, y):
    arrows = run("lcs_length", x=x, y=y).outputs["b"][0, : len(x), len(x) :].argmax(-1)
    i, j, length = len(x) - 1, len(y) - 1, 0
    while i >= 0 and j >= 0:
        if arrows[i, j] == DIAGONAL:
            assert x[i] == y[j]
            i, j, length = i - 1, j - 1, length + 1
        elif arrows[i, j] == UP:
            i -= 1
        else:
            assert arrows[i, j] == LEFT
            j -= 1
    assert length == common_subsequence(x, y)[-1, -1]


@check
@given(x=strings, y=strings)
def test_lcs_cells_are_edges_from_the_first_to_the_second_string(x, y):
    batch = run("lcs_length", x=x, y=y)
    cell = np.zeros((len(x) + len(y),) * 2, bool)
    cell[: len(x), len(x) :] = True
    for arrows in (batch.outputs["b"][0], *batch.hints["b_h"][:, 0]):
        assert (arrows[cell].sum(-1) == 1).all() and (arrows[cell][:, BLANK] == 0).all()
        assert (arrows[~cell] == [0, 0, 0, -1]).all()
    assert batch.inputs["string"][0].tolist() == [0] * len(x) + [1] * len(y)
    assert batch.inputs["key"][0].argmax(-1).tolist() == x + y


def test_two_strings_of_one_character():
    assert run("lcs_length", x=[1], y=[1]).outputs["b"][0, 0, 1].tolist() == [1, 0, 0, 0]
    assert run("lcs_length", x=[1], y=[2]).outputs["b"][0, 0, 1].tolist() == [0, 1, 0, 0]


def test_predecessors_begin_anew_in_the_second_string():
    assert run("lcs_length", x=[0, 1, 2], y=[3, 3]).hints["pred_h"][0, 0].tolist() == [0, 0, 1, 3, 3]


def best_tree(p, q):
    """The expected cost of a search in the best tree of all keys, by trying every root."""

    @functools.cache
    def cost(i, j):
        weight = sum(p[i:j]) + sum(q[i : j + 1])
        return q[i] if i == j else weight + min(cost(i, r) + cost(r + 1, j) for r in range(i, j))

    return cost(0, len(p))


@st.composite
def probabilities(draw):
    keys = draw(st.integers(1, 7))
    weights = draw(st.lists(st.integers(0, 9), min_size=2 * keys + 1, max_size=2 * keys + 1))
    return [float(w) for w in weights[:keys]], [float(w) for w in weights[keys:]]


@check
@given(pq=probabilities())
def test_roots_give_the_best_search_tree(pq):
    p, q = pq
    batch = run("optimal_bst", p=p, q=q)
    root = batch.outputs["root"][0]

    def cost_by_roots(i, j):
        if i == j:
            return q[i]
        r = root[i, j]
        assert i <= r < j
        return sum(p[i:j]) + sum(q[i : j + 1]) + cost_by_roots(i, r) + cost_by_roots(r + 1, j)

    assert cost_by_roots(0, len(p)) == best_tree(p, q) == batch.hints["e"][-1, 0, 0, len(p)]
    assert batch.hints["w"][-1, 0, 0, len(p)] == sum(p) + sum(q)
    assert batch.lengths.tolist() == [len(p) + 1]
    for step, known in enumerate(batch.hints["msk"][:, 0]):
        assert known.sum() == sum(len(q) - length for length in range(step + 1))


def test_textbook_search_tree():
    p = [0.15, 0.10, 0.05, 0.10, 0.20]
    q = [0.05, 0.10, 0.05, 0.05, 0.05, 0.10]
    batch = run("optimal_bst", p=p, q=q)  # CLRS, figure 15.10
    assert batch.hints["e"][-1, 0, 0, 5] == pytest.approx(2.75)
    root = batch.outputs["root"][0]
    assert [root[0, 5], root[0, 1], root[2, 5], root[2, 4]] == [1, 0, 4, 3]
    assert batch.inputs["p"][0, -1] == 0


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("matrix_chain_order", {"p": [1.0, -2.0, 3.0]}, "'p': expected values in 0"),
        ("matrix_chain_order", {"p": [1.0, 1e200, 0.0]}, "'p': expected values in 0"),
        ("matrix_chain_order", {"p": [1.0]}, "at least 2 nodes, got 1"),
        ("matrix_chain_order", {"p": [1.0, np.nan]}, "finite numbers, got NaN"),
        ("matrix_chain_order", {"p": [[1.0, 2.0]]}, "matrix dimensions .1 axes., got an array of shape .1, 2."),
        ("lcs_length", {"x": [0, 4], "y": [1]}, "'x': expected values in 0..3, got values in 0..4"),
        ("lcs_length", {"x": [0], "y": [-1]}, "'y': expected values in 0..3, got values in -1..-1"),
        ("lcs_length", {"x": [0, 0.5], "y": [1]}, "'x': expected a string.*whole numbers"),
        ("lcs_length", {"x": [], "y": [1]}, "'x': expected at least one element"),
        ("lcs_length", {"x": [1], "y": []}, "'y': expected at least one element"),
        ("optimal_bst", {"p": [0.5], "q": [0.5]}, "'q': expected 2 elements to go with 1 of 'p', got 1"),
        ("optimal_bst", {"p": [-0.5], "q": [0.5, 1.0]}, "'p': expected no negative values, got the minimum -0.5"),
        ("optimal_bst", {"p": [0.5], "q": [0.5, -1.0]}, "'q': expected no negative values, got the minimum -1.0"),
        ("optimal_bst", {"p": [], "q": [1.0]}, "at least 2 nodes, got 1"),
    ],
)
def test_bad_instances_are_refused(name, arguments, message):
    with pytest.raises(InstanceError, match=message):
        run(name, **arguments)


@pytest.mark.parametrize(
    ("name", "smallest", "nodes"), [("matrix_chain_order", 2, 2), ("lcs_length", 2, 2), ("optimal_bst", 1, 2)]
)
def test_smallest_sizes(name, smallest, nodes):
    assert sample(name, size=smallest, batch_size=4).num_nodes == nodes
    with pytest.raises(InstanceError, match=f"size of at least {smallest}"):
        sample(name, size=smallest - 1)
