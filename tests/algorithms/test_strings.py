"""String matchers against `str.find`, and their hints against what they promise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narkit.data.execution import run, sample
from narkit.errors import InstanceError

MATCHERS = ["naive_string_matcher", "kmp_matcher"]
check = settings(max_examples=40, deadline=None)


@st.composite
def haystack_and_needle(draw):
    """Strings of few letters, so that near matches and fall-backs are common."""
    letters = st.integers(0, draw(st.integers(0, 3)))
    haystack = draw(st.lists(letters, min_size=1, max_size=14))
    needle = draw(st.lists(letters, min_size=1, max_size=len(haystack)))
    return haystack, needle


def find(haystack, needle):
    """Where the needle begins; one past the haystack if it does not occur."""
    start = "".join(map(str, haystack)).find("".join(map(str, needle)))
    return len(haystack) if start < 0 else start


@pytest.mark.parametrize("name", MATCHERS)
@check
@given(strings=haystack_and_needle())
def test_match_is_the_first_occurrence(name, strings):
    haystack, needle = strings
    batch = run(name, T=haystack, P=needle)
    assert np.flatnonzero(batch.outputs["match"][0]).tolist() == [find(haystack, needle)]
    assert batch.num_nodes == len(haystack) + len(needle)
    assert batch.inputs["string"][0].tolist() == [0] * len(haystack) + [1] * len(needle)
    assert batch.inputs["key"][0].argmax(-1).tolist() == haystack + needle
    for hint in {"s", "i", "j", "k", "q"} & set(batch.hints):
        assert (batch.hints[hint].sum(-1) == 1).all(), hint


@check
@given(strings=haystack_and_needle())
def test_naive_steps_are_all_comparisons(strings):
    haystack, needle = strings
    comparisons = []
    for s in range(len(haystack) - len(needle) + 1):
        for j in range(len(needle)):
            comparisons.append((s, s + j, len(haystack) + j))
            if haystack[s + j] != needle[j]:
                break
        else:
            break
    hints = run("naive_string_matcher", T=haystack, P=needle).hints
    steps = np.stack([hints[name][:, 0].argmax(-1) for name in ("s", "i", "j")], axis=1)
    assert [tuple(step) for step in steps.tolist()] == comparisons


def longest_borders(needle):
    """For every prefix the length of the longest proper prefix that is also its end, by trying all."""
    return [
        max(length for length in range(end) if needle[:length] == needle[end - length : end])
        for end in range(1, len(needle) + 1)
    ]


@check
@given(strings=haystack_and_needle())
def test_kmp_computes_the_prefix_function(strings):
    haystack, needle = strings
    n = len(haystack)
    hints = run("kmp_matcher", T=haystack, P=needle).hints
    pi, is_reset = hints["pi"][-1, 0], hints["is_reset"][-1, 0]
    assert pi[:n].tolist() == list(range(n)) and not is_reset[:n].any()
    for j, border in enumerate(longest_borders(needle)):
        assert is_reset[n + j] == (border == 0)
        assert pi[n + j] == n + max(border - 1, 0)


@check
@given(strings=haystack_and_needle())
def test_kmp_reads_the_haystack_once_and_never_back(strings):
    haystack, needle = strings
    hints = run("kmp_matcher", T=haystack, P=needle).hints
    phase, i = hints["phase"][:, 0], hints["i"][:, 0].argmax(-1)
    assert (np.diff(phase) >= 0).all() and (i[phase == 0] == 0).all()
    last = min(find(haystack, needle) + len(needle), len(haystack))
    assert sorted(set(i[phase == 1].tolist())) == list(range(last))
    assert (np.diff(i[phase == 1]) >= 0).all()
    assert len(phase) <= 2 * (len(haystack) + len(needle))


@pytest.mark.parametrize("name", MATCHERS)
@pytest.mark.parametrize(
    ("haystack", "needle", "match"),
    [([2], [2], 0), ([2], [1], 1), ([0, 1, 2], [0, 1, 2], 0), ([0, 0, 0], [0, 0, 1], 3), ([0, 1], [1], 1)],
)
def test_edge_cases(name, haystack, needle, match):
    assert run(name, T=haystack, P=needle).outputs["match"][0].argmax() == match


@pytest.mark.parametrize("name", MATCHERS)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"T": [0, 1], "P": [0, 1, 2]},
            r"'P': expected a needle no longer than the haystack 'T' \(2 characters\), got 3",
        ),
        ({"T": [0, 4], "P": [0]}, "'T': expected values in 0..3, got values in 0..4"),
        ({"T": [0, 1], "P": [-1]}, "'P': expected values in 0..3, got values in -1..-1"),
        ({"T": [], "P": []}, "'T': expected at least one element, got none"),
        ({"T": [1], "P": []}, "'P': expected at least one element, got none"),
        ({"T": [0.5], "P": [0]}, "'T': expected a string: .*whole numbers"),
        ({"T": [[0]], "P": [0]}, "'T': expected a string: .* got an array of shape"),
        ({"T": "ab", "P": "a"}, "'T': expected a string: a vector of characters 0..3"),
    ],
)
def test_bad_instances_are_refused(name, arguments, message):
    with pytest.raises(InstanceError, match=message):
        run(name, **arguments)


@pytest.mark.parametrize("name", MATCHERS)
@pytest.mark.parametrize(("size", "nodes"), [(2, 2), (3, 3), (4, 5), (16, 20)])
def test_samples_have_the_nodes_of_their_size_and_a_match(name, size, nodes):
    batch = sample(name, size=size, batch_size=32, seed=1)
    assert batch.num_nodes == nodes
    needle_lengths = batch.inputs["string"].sum(1)
    assert (needle_lengths >= 1).all() and (needle_lengths <= max(1, min(8, (nodes - 1) // 2))).all()
    matches = batch.outputs["match"].argmax(1)
    assert (matches < nodes - needle_lengths).all() or size == 2
    with pytest.raises(InstanceError, match="size of at least 2"):
        sample(name, size=1)
