"""String matching: where does the needle P occur first in the haystack T?

The nodes are the characters of the haystack, then those of the needle. If the needle does not occur, the output is
the needle's own first character, one past the end of the haystack.
"""

import functools

import numpy as np

from narkit.algorithms import arguments, instances
from narkit.algorithms.recording import fill, fill_two_orders, fill_two_strings, next_step
from narkit.errors import InstanceError
from narkit.spec import algorithm, constant, graph, node


def _fits_into_haystack(name, value, values):
    if len(value) > len(values["T"]):
        raise InstanceError(
            f"argument {name!r}: expected a needle no longer than the haystack 'T' ({len(values['T'])} characters), "
            f"got {len(value)}; shorten the needle or exchange the two"
        )


matcher = functools.partial(
    algorithm,
    category="strings",
    inputs={
        "string": node("mask", "0: the character is of the haystack; 1: of the needle"),
        "pos": node("scalar", "position of the character within its string"),
        "key": node("categorical", "the character", classes=instances.ALPHABET_SIZE),
    },
    outputs={"match": node("mask_one", "where the needle first occurs; the needle's first character if it does not")},
    arguments={
        "T": arguments.string(instances.ALPHABET_SIZE),
        "P": arguments.string(instances.ALPHABET_SIZE, _fits_into_haystack),
    },
    sampler=instances.haystack_and_needle,
    multiplier=64,
    training_size_is_fixed=True,
    nodes_of_size=instances.haystack_nodes,
    nodes_of_instance=lambda T, P: len(T) + len(P),
)
"""The probes that all matchers have in common; they differ in their hints."""

PREDECESSOR = constant(node("pointer", "the character before this one in its string; the first: itself"))


@matcher(
    hints={
        "pred_h": PREDECESSOR,
        "s": node("mask_one", "the shift: where in the haystack the needle is tried"),
        "i": node("mask_one", "the haystack's character that is compared"),
        "j": node("mask_one", "the needle's character that is compared"),
    },
)
def naive_string_matcher(T, P, probes):
    """Naive string matching (CLRS 32.1).

    One hint step is one comparison of a character of the haystack with one of the needle.
    """
    n, m = len(T), len(P)
    fill_two_strings(probes, T, P)
    fill_two_orders(probes.pred_h, n)

    def snapshot(s, j):
        step = next_step(probes)
        probes.s[step, s] = 1
        probes.i[step, s + j] = 1
        probes.j[step, n + j] = 1

    for s in range(n - m + 1):
        j = 0
        snapshot(s, j)
        while T[s + j] == P[j]:
            if j == m - 1:
                probes.match[s] = 1
                return
            j += 1
            snapshot(s, j)
    probes.match[n] = 1


@matcher(
    hints={
        "pred_h": PREDECESSOR,
        "pi": node("pointer", "last character of the longest proper prefix that also ends here, once it is known"),
        "is_reset": node("mask", "whether no proper prefix of the needle ends here, as far as is known"),
        "k": node("mask_one", "last character of the prefix that is being extended while pi is computed"),
        "k_reset": graph("mask", "whether the prefix that is being extended is empty"),
        "q": node("mask_one", "phase 0: the needle's character whose pi is computed; phase 1: the last matched one"),
        "q_reset": graph("mask", "whether no character of the needle is matched"),
        "s": node("mask_one", "the shift: where in the haystack an occurrence that ends at i begins"),
        "i": node("mask_one", "the haystack's character that is read"),
        "phase": graph("mask", "0: computing the prefix function pi; 1: matching"),
    },
)
def kmp_matcher(T, P, probes):
    """Knuth-Morris-Pratt string matching (CLRS 32.4).

    Prefixes are named by their last character, so the empty one has no name: flags (`is_reset`, `k_reset`,
    `q_reset`) stand for it, and the name beside a set flag is that of character 0. One hint step is, in phase 0, one
    fall-back to a shorter prefix or one finished entry of pi; in phase 1, one character of the haystack or one
    fall-back.
    """
    n, m = len(T), len(P)
    fill_two_strings(probes, T, P)
    fill_two_orders(probes.pred_h, n)
    pi = np.arange(n + m)  # indexed, like all the hints, by node: the needle's characters begin at n
    is_reset = np.zeros(n + m, np.int8)
    is_reset[n] = 1

    def snapshot(k, k_reset, q, q_reset, s, i, phase):
        step = next_step(probes)
        fill(probes.pi[step], pi)
        fill(probes.is_reset[step], is_reset)
        probes.k[step, n + k] = 1
        probes.k_reset[step] = k_reset
        probes.q[step, n + q] = 1
        probes.q_reset[step] = q_reset
        probes.s[step, s] = 1
        probes.i[step, i] = 1
        probes.phase[step] = phase

    k, k_reset = 0, 1
    snapshot(k, k_reset, min(1, m - 1), 1, 0, 0, 0)
    for q in range(1, m):
        while k_reset == 0 and P[k + 1] != P[q]:
            k, k_reset = pi[n + k] - n, is_reset[n + k]
            snapshot(k, k_reset, q, 1, 0, 0, 0)
        extends = 0 if k_reset == 1 else k + 1  # the character that a prefix ending at q would need
        if P[extends] == P[q]:
            k, k_reset = extends, 0
        else:
            k, k_reset = 0, 1
        pi[n + q] = n + k
        is_reset[n + q] = k_reset
        snapshot(k, k_reset, q, 1, 0, 0, 0)

    q, q_reset = 0, 1
    for i in range(n):
        s = max(0, i - m + 1)
        snapshot(k, k_reset, q, q_reset, s, i, 1)
        while q_reset == 0 and P[q + 1] != T[i]:
            q, q_reset = pi[n + q] - n, is_reset[n + q]
            snapshot(k, k_reset, q, q_reset, s, i, 1)
        extends = 0 if q_reset == 1 else q + 1
        if P[extends] == T[i]:
            q, q_reset = extends, 0
            if q == m - 1:
                probes.match[s] = 1
                return
        else:
            q, q_reset = 0, 1
    probes.match[n] = 1
