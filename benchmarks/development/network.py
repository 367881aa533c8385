"""The network of the development runs: Triplet Edge Attention with every lever that was tried as an option.

Plain formulas on factored features, apart from the library, so that a lever can be tried before it is built in. What
`docs/beyond.md` decides to keep becomes an option of the library; when all of it is there, this file goes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from narkit.algorithms import ALGORITHMS
from narkit.loops.time_loop import time_loop
from narkit.models import predictions, triplets
from narkit.models.encoders import as_values, feature_location
from narkit.models.features import Basis, fold
from narkit.models.layers import LayerNorm, Linear, max_over_first, side_by_side, split_outputs
from narkit.spec import Kind, Location, Stage

POINTING = (Kind.POINTER, Kind.PERMUTATION_POINTER)
NARROW = 8
PAIR = 16


@dataclass(frozen=True)
class Options:
    """The levers; `docs/beyond.md` says what each is for."""

    hidden_in: bool = True  # TEA reads [x || hidden]
    skip: bool = True  # + a Linear of the edge before the ReLU
    scale: str = "log"  # none | log | learnt
    latents: bool = True  # decoders read [e || t]
    both: bool = False  # edges in both directions in logits, values, skip
    kj: bool = False  # values read e_kj (with both: both directions) too
    nodes_v: bool = False  # values read z_k
    maxima: bool = False  # narrow maxima over k beside attention
    mean: bool = False  # mean beside max of messages
    gated: bool = True
    norm: bool = False  # LayerNorm behind TEA
    ptr2: bool = False  # node pointers read e_ip and e_pi
    keep: bool = False  # pointer logits + gamma_i s_ip + gamma'_i s_pi
    lossless: bool = False  # edge pointers: gathered encodings, logits of TEA, bilinear decode, gamma, kappa
    sharp: bool = False  # pointer and mask_one logits * log n / log 16
    compare: bool = False  # hand-made comparisons
    damp: float = 1.0  # factor of the cotangent through fed-back hints
    tea: bool = True  # False: Triplet-GMPNN's processor (edges straight into messages, narrow maxima as latents)


def zero_linear(key, i, o):
    linear = Linear(i, o, key=key)
    return eqx.tree_at(lambda linear: linear.weight, linear, jnp.zeros_like(linear.weight))


class Net(eqx.Module):
    """The parameters `p` of a network for one algorithm, of width `h`."""

    o: Options = eqx.field(static=True)
    algorithm: str = eqx.field(static=True)
    h: int = eqx.field(static=True)
    p: dict[str, Any]

    def __init__(self, algorithm: str, o: Options, h: int, *, key):
        self.o, self.algorithm, self.h = o, algorithm, h
        keys = iter(jax.random.split(key, 400))

        def nk():
            return next(keys)

        p: dict[str, Any] = {}
        node, edge, graph = self.layout

        def enc(stds):
            n = len(stds)
            w = (
                jax.random.truncated_normal(nk(), -2.0, 2.0, (n, h)) * jnp.asarray(stds)[:, None]
                if n
                else jnp.zeros((0, h))
            )
            linear = Linear(1, h, key=nk())
            return eqx.tree_at(lambda linear: (linear.weight, linear.bias), linear, (w, jnp.zeros(h)))

        p["enc"] = {"node": enc(node), "edge": enc(edge), "graph": enc(graph)}
        z = 2 * h if o.hidden_in else h

        def L(i, w=h):
            return Linear(i, w, key=nk())

        if o.tea:
            p["tea_nodes"] = [L(z), L(z), L(z)]
            ne = 2 if o.both else 1
            p["tea_edges"] = [[L(h) for _ in range(ne)] for _ in range(3)]
            p["tea_graph"] = L(h)
            p["a"] = h**-0.5 * jax.random.truncated_normal(nk(), -2.0, 2.0, (1, h))
            nv = (2 if o.both else 1) * (2 if o.kj else 1)
            p["values"] = [L(h) for _ in range(nv)]
            if o.nodes_v:
                p["value_nodes"] = L(z)
            if o.skip:
                p["skip"] = [L(h) for _ in range(ne)]
            if o.scale == "learnt":
                p["scale"] = jnp.array([0.0, 1.0])
            if o.lossless:
                p["tri"] = {q: jnp.zeros(3) for q in self.edge_pointers}
            if o.norm:
                p["tea_norm"] = LayerNorm(h)
        if o.maxima or not o.tea:
            ne = 2 if o.both else 1
            p["max_nodes"] = [L(2 * h, NARROW) for _ in range(3)]
            p["max_edges"] = [[L(h, NARROW) for _ in range(ne)] for _ in range(3)]
            p["max_graph"] = L(h, NARROW)
            p["max_out"] = L(NARROW)
        p["m_recv"], p["m_send"], p["m_edge"], p["m_graph"] = L(2 * h), L(2 * h), L(h), L(h)
        p["mlp"] = [L(h), L(h)]
        p["o1"], p["o2"] = L(2 * h), L(h)
        if o.mean:
            p["o3"] = L(h)
        p["norm"] = LayerNorm(h)
        if o.gated:
            p["g1"], p["g2"], p["g3"] = L(2 * h), L(h), Linear(h, h, key=nk(), bias=-3.0)
        p["dec"] = {
            name: self._decoder(probe, nk) for name, probe in self.spec.items() if probe.stage is not Stage.INPUT
        }
        self.p = p

    @property
    def spec(self):
        return ALGORITHMS[self.algorithm].transformed_spec

    @property
    def encoded(self):
        return [n for n, q in self.spec.items() if q.stage in (Stage.INPUT, Stage.HINT)]

    @property
    def edge_pointers(self):
        return [n for n in self.encoded if self.spec[n].location is Location.EDGE and self.spec[n].kind in POINTING]

    @property
    def compared(self):
        s = self.spec
        nodes = [
            n
            for n in self.encoded
            if s[n].stage is Stage.INPUT and s[n].kind is Kind.SCALAR and s[n].location is Location.NODE and n != "pos"
        ]
        graphs = [
            n
            for n in self.encoded
            if s[n].stage is Stage.INPUT and s[n].kind is Kind.SCALAR and s[n].location is Location.GRAPH
        ]
        return (nodes, graphs) if self.o.compare else ([], [])

    @property
    def layout(self):
        """Standard deviations of encoder rows for node, edge, graph scalars."""
        h, s = self.h, self.spec
        at = {Location.NODE: [], Location.EDGE: [], Location.GRAPH: []}
        for n in self.encoded:
            q = s[n]
            std = h**-0.5 if q.stage is Stage.HINT and q.kind is Kind.SCALAR else 1.0
            if q.kind is Kind.CATEGORICAL:
                at[feature_location(q)] += [q.num_classes**-0.5] * q.num_classes
            elif q.location is Location.EDGE and q.kind in POINTING:
                at[Location.EDGE] += [1.0, 1.0]
            else:
                at[feature_location(q)].append(std)
        nodes, graphs = self.compared
        plain_edges = len([0 for n in self.encoded for _ in range(self._edge_width(n))])
        at[Location.EDGE] += [1.0] * len(nodes)
        at[Location.NODE] += [1.0] * (len(nodes) * len(graphs))
        if self.o.lossless:
            base = plain_edges
            for _ in self.edge_pointers:
                at[Location.EDGE] += [h**-0.5] * (2 * base + len(at[Location.NODE]))
        return at[Location.NODE], at[Location.EDGE], at[Location.GRAPH]

    def _edge_width(self, n):
        q = self.spec[n]
        if feature_location(q) is not Location.EDGE or (q.location is Location.EDGE and q.kind in POINTING):
            return 0
        return q.num_classes if q.kind is Kind.CATEGORICAL else 1

    @property
    def num_edge_scalars(self):
        return len(self.layout[1])

    def _decoder(self, q, nk):
        h, o = self.h, self.o
        e = 2 * h if (o.latents or not o.tea) else h

        def L(i, w):
            return Linear(i, w, key=nk())

        w = q.num_classes or 1
        ne = 2 if o.ptr2 else 1
        if q.location is Location.NODE and q.kind in POINTING:
            d = {"nodes": [L(3 * h, h), L(3 * h, h)], "edges": [L(e, h) for _ in range(ne)], "score": L(h, 1)}
            if o.keep:
                d["keep"] = zero_linear(nk(), 3 * h, 2 * self.num_edge_scalars)
            return d
        if q.location is Location.EDGE and q.kind in POINTING:
            d = {"nodes": [L(3 * h, h) for _ in range(3)], "edges": [L(e, h)], "score": L(h, 1)}
            if o.lossless:
                npt = len(self.edge_pointers)
                d["q_nodes"] = [L(3 * h, 2 * PAIR + 2 * npt), L(3 * h, 2 * PAIR + 2 * npt)]
                d["q_edges"] = L(e, 2 * PAIR + 2 * npt)
                d["k_edges"] = [L(e, PAIR), L(e, PAIR)]
            return d
        if q.location is Location.EDGE:
            return {"nodes": [L(3 * h, w), L(3 * h, w)], "edges": [L(e, w) for _ in range(ne)]}
        if q.location is Location.NODE:
            return {"nodes": [L(3 * h, w)]}
        if q.kind in POINTING:
            return {"nodes": [L(3 * h, 1)], "pooled": L(3 * h, 1), "graph": L(h, 1)}
        return {"pooled": L(3 * h, w), "graph": L(h, w)}

    # ---- one sample ----
    def scalars(self, v):
        s, n = self.spec, v["pos"].shape[-1]
        at = {Location.NODE: [], Location.EDGE: [], Location.GRAPH: []}
        means = []
        for name in self.encoded:
            q, x = s[name], v[name]
            if q.location is Location.EDGE and q.kind in POINTING:
                means.append((len(at[Location.EDGE]), x))
                at[Location.EDGE].append(jnp.stack([x.mean(0), x.mean(1)], -1))
                continue
            at[feature_location(q)].append(x if q.kind is Kind.CATEGORICAL else x[..., None])
        plain = [a for i, a in enumerate(at[Location.EDGE]) if i not in [m[0] for m in means]]
        nodes, graphs = self.compared
        for name in nodes:
            x = v[name]
            at[Location.EDGE].append((x[:, None] < x[None]).astype(x.dtype)[..., None])
            for g in graphs:
                at[Location.NODE].append((x < v[g]).astype(x.dtype)[..., None])

        def cat(xs, shape):
            return jnp.concatenate(xs, -1) if xs else jnp.zeros((*shape, 0))

        node = cat(at[Location.NODE], (n,))
        if self.o.lossless:
            base = cat(plain, (n, n))
            for _, P in means:
                at[Location.EDGE] += [
                    jnp.einsum("ijk,ikp->ijp", P, base),
                    jnp.einsum("ijk,kjp->ijp", P, base),
                    jnp.einsum("ijk,kp->ijp", P, node),
                ]
        return node, cat(at[Location.EDGE], (n, n)), cat(at[Location.GRAPH], ())


def T(x):
    return jnp.swapaxes(x, 0, 1)


def basis(linear: Linear) -> Basis:
    return Basis(linear.weight, linear.bias)


class Bound(eqx.Module):
    """Everything folded once before the loop."""

    net: Net
    f: dict[str, Any]

    @classmethod
    def of(cls, net: Net):
        p, o, h = net.p, net.o, net.h
        B = {k: basis(linear) for k, linear in p["enc"].items()}
        f: dict[str, Any] = {"B": B}

        def both(ls):  # Linears of e_ij and e_ji as one basis over [s_ij, s_ji]
            bs = [B["edge"].through(linear) for linear in ls]
            return Basis(jnp.concatenate([b.directions for b in bs]), sum(b.offset for b in bs))

        z = [h] if o.hidden_in else []
        if o.tea:
            f["tea_nodes"] = fold(side_by_side(p["tea_nodes"]), B["node"], z)
            f["tea_edges"] = [both(ls) for ls in p["tea_edges"]]
            f["tea_graph"] = B["graph"].through(p["tea_graph"])
            f["values"] = both(p["values"])
            if o.skip:
                f["skip"] = both(p["skip"])
            if o.nodes_v:
                f["value_nodes"] = fold(p["value_nodes"], B["node"], z)
        if o.maxima or not o.tea:
            f["max_nodes"] = fold(side_by_side(p["max_nodes"]), B["node"], [h])
            f["max_edges"] = [both(ls) for ls in p["max_edges"]]
            f["max_graph"] = B["graph"].through(p["max_graph"])
        if not o.tea:
            f["m_edge"] = B["edge"].through(p["m_edge"])
        on = [p["m_recv"], p["m_send"], p["o1"]] + ([p["g1"]] if o.gated else [])
        f["m_nodes"] = fold(side_by_side(on), B["node"], [h])
        f["m_graph"] = B["graph"].through(p["m_graph"])
        lat = [h] if (o.latents or not o.tea) else []
        for kind in ("hint", "output"):
            names = [n for n, q in net.spec.items() if q.stage.value == kind]
            ls = [
                linear
                for n in names
                for linear in p["dec"][n].get("nodes", [])
                + p["dec"][n].get("q_nodes", [])
                + ([p["dec"][n]["keep"]] if "keep" in p["dec"][n] else [])
            ]
            f["dn_" + kind] = fold(side_by_side(ls), B["node"], [h, h]) if ls else None
            for n in names:
                d = p["dec"][n]
                es = d.get("edges", []) + ([d["q_edges"]] if "q_edges" in d else []) + d.get("k_edges", [])
                f["de_" + n] = fold(side_by_side(es), B["edge"], lat) if es else None
                if "graph" in d:
                    f["dg_" + n] = B["graph"].through(d["graph"])
        return cls(net, f)

    def tea(self, v, s, hidden):
        """latent t (n,n,h) and attention (n,n,n)."""
        net, f, p, o = self.net, self.f, self.net.p, self.net.o
        node, edge, graph = s
        h, n = net.h, len(node)
        d = [hidden] if o.hidden_in else []
        two = jnp.concatenate([edge, T(edge)], -1) if o.both else edge
        pre = 0.0
        alpha = None
        if o.tea:
            i, j, k = split_outputs(f["tea_nodes"](node, *d), [h] * 3)
            ij, ik, jk = (b(two) for b in f["tea_edges"])
            u = i[:, None] + j[None] + ij + f["tea_graph"](graph)
            logits = triplets.attention_logits(u, k[None] + ik, jk, p["a"], 0.01)[0]
            r = math.log(n) / math.log(16)
            if o.scale == "log":
                logits = logits * r
            if o.scale == "learnt":
                logits = logits * (p["scale"][0] + p["scale"][1] * r)
            if o.lossless:
                for q in net.edge_pointers:
                    b, P = p["tri"][q], v[q]
                    logits = (
                        logits + b[0] * P + b[1] * jnp.swapaxes(P, 1, 2) + b[2] * jnp.moveaxis(P, 0, 2).swapaxes(0, 1)
                    )
            alpha = jax.nn.softmax(logits)
            parts = [jnp.einsum("ijk,ikp->ijp", alpha, edge)]
            if o.both:
                parts.append(jnp.einsum("ijk,kip->ijp", alpha, edge))
            if o.kj:
                parts.append(jnp.einsum("ijk,kjp->ijp", alpha, edge))
                if o.both:
                    parts.append(jnp.einsum("ijk,jkp->ijp", alpha, edge))
            pre = f["values"](jnp.concatenate(parts, -1))
            if o.nodes_v:
                pre = pre + jnp.einsum("ijk,kh->ijh", alpha, f["value_nodes"](node, *d))
            if o.skip:
                pre = pre + f["skip"](two)
        if o.maxima or not o.tea:
            a, b, c = split_outputs(f["max_nodes"](node, hidden), [NARROW] * 3)
            eij, eik, ejk = (x(two) for x in f["max_edges"])
            # max over k of (c_k + eik_ik) + ejk_jk ; triplet_max reduces its first axis: max_k u_kj' + w_ki'
            best = triplets.triplet_max(T(c[None] + eik), T(ejk))
            pre = pre + Linear.__call__(p["max_out"], best + a[:, None] + b[None] + eij + f["max_graph"](graph))
        t = jax.nn.relu(pre)
        if o.norm:
            t = p["tea_norm"](t)
        return t, alpha

    def process(self, v, s, hidden):
        net, f, p, o = self.net, self.f, self.net.p, self.net.o
        node, edge, graph = s
        h = net.h
        t, alpha = self.tea(v, s, hidden)
        parts = split_outputs(f["m_nodes"](node, hidden), [h] * (4 if o.gated else 3))
        msg = parts[0][None] + parts[1][:, None] + f["m_graph"](graph)
        msg = msg + (p["m_edge"](t) if o.tea else f["m_edge"](edge))
        for linear in p["mlp"]:
            msg = linear(jax.nn.relu(msg))
        best = max_over_first(msg)
        up = parts[2] + p["o2"](best)
        if o.mean:
            up = up + p["o3"](msg.mean(0))
        r = p["norm"](jax.nn.relu(up))
        if not o.gated:
            return r, t, alpha
        c = jax.nn.sigmoid(p["g3"](jax.nn.relu(parts[3] + p["g2"](best))))
        return c * r + (1 - c) * hidden, t, alpha

    def decode(self, kind, v, s, hidden, nxt, t, alpha):
        net, f, p, o = self.net, self.f, self.net.p, self.net.o
        node, edge, graph = s
        _h, n = net.h, len(node)
        names = [m for m, q in net.spec.items() if q.stage.value == kind]
        lat = [t] if (o.latents or not o.tea) else []
        out_nodes = f["dn_" + kind](node, hidden, nxt) if f["dn_" + kind] is not None else None
        at = 0

        def take(linear):
            nonlocal at
            w = linear.bias.shape[0]
            at += w
            return out_nodes[..., at - w : at]

        r = math.log(n) / math.log(16) if o.sharp else 1.0
        pooled = None
        logits = {}
        for m in names:
            q, d = net.spec[m], p["dec"][m]
            nd = [take(linear) for linear in d.get("nodes", [])]
            qn = [take(linear) for linear in d.get("q_nodes", [])]
            keep = take(d["keep"]) if "keep" in d else None
            if f["de_" + m] is not None:
                sizes = [
                    linear.bias.shape[0]
                    for linear in d.get("edges", []) + ([d["q_edges"]] if "q_edges" in d else []) + d.get("k_edges", [])
                ]
                ed = split_outputs(f["de_" + m](edge, *lat), sizes)
            if q.location is Location.NODE and q.kind in POINTING:
                e = T(ed[0])
                if o.ptr2:
                    e = e + ed[1]
                x = d["score"](jnp.maximum(nd[0][:, None], nd[1][None] + e))[..., 0]
                if keep is not None:
                    P = edge.shape[-1]
                    x = x + jnp.einsum("ip,ijp->ij", keep[:, :P], edge) + jnp.einsum("ip,jip->ij", keep[:, P:], edge)
                logits[m] = x * r if q.kind is Kind.POINTER else x
            elif q.location is Location.EDGE and q.kind in POINTING:
                x = (
                    triplets.edge_pointer_logits(nd[0][:, None] + nd[1][None] + ed[0], nd[2], d["score"].weight[:, 0])
                    + d["score"].bias
                )
                if o.lossless:
                    Q = qn[0][:, None] + qn[1][None] + ed[1]
                    a, b = Q[..., :PAIR], Q[..., PAIR : 2 * PAIR]
                    x = x + PAIR**-0.5 * (jnp.einsum("ijw,ikw->ijk", a, ed[2]) + jnp.einsum("ijw,kjw->ijk", b, ed[3]))
                    for idx, name in enumerate(net.edge_pointers):
                        P = v[name]
                        g, kap = Q[..., 2 * PAIR + 2 * idx], Q[..., 2 * PAIR + 2 * idx + 1]
                        x = x + g[..., None] * P
                        if alpha is not None:
                            x = x + kap[..., None] * jnp.einsum("ijm,mjk->ijk", alpha, P)
                logits[m] = x * r
            elif q.location is Location.EDGE:
                x = nd[0][:, None] + nd[1][None] + ed[0]
                if o.ptr2:
                    x = x + T(ed[1])
                logits[m] = x if q.kind is Kind.CATEGORICAL else x[..., 0]
            elif q.location is Location.NODE:
                x = nd[0]
                logits[m] = x if q.kind is Kind.CATEGORICAL else x[..., 0]
                if q.kind is Kind.MASK_ONE:
                    logits[m] = logits[m] * r
            else:
                if pooled is None:
                    pooled = max_over_first(jnp.concatenate([f["B"]["node"](node), hidden, nxt], -1))
                x = d["pooled"](pooled) + f["dg_" + m](graph)
                if q.kind in POINTING:
                    logits[m] = (x + nd[0][..., 0]) * r
                else:
                    logits[m] = x if q.kind is Kind.CATEGORICAL else x[..., 0]
        return logits

    def step(self, v, hidden):
        s = self.net.scalars(v)
        nxt, t, alpha = self.process(v, s, hidden)
        return nxt, self.decode("hint", v, s, hidden, nxt, t, alpha)

    def outputs(self, v, hidden, nxt):
        s = self.net.scalars(v)
        t, alpha = self.tea(v, s, hidden)
        return self.decode("output", v, s, hidden, nxt, t, alpha)


def damp(x, d):
    return x if d == 1.0 else d * x + (1 - d) * jax.lax.stop_gradient(x)


def unroll(net: Net, batch, *, key=None, keep_hints=True, num_steps=None, summarise=None):
    bound = Bound.of(net)
    spec, n = net.spec, batch.num_nodes
    inputs = as_values(spec, batch.inputs, n)
    hints = as_values(spec, {m: x[0] for m, x in batch.hints.items()}, n)

    def step(bound, data, i, carry):
        hidden, hints = carry
        v = {**data, **{m: damp(x, net.o.damp) for m, x in hints.items()}}
        nxt, logits = jax.vmap(bound.step)(v, hidden)
        fed = {m: predictions.soften(spec[m], x) for m, x in logits.items()}
        y = logits if keep_hints else {}
        return (nxt, fed), y, (hints, hidden, nxt)

    hidden = jnp.zeros((len(batch.lengths), n, net.h))
    if num_steps is None:
        num_steps = jnp.maximum(1, batch.lengths.max() - 1)
    last = jnp.maximum(0, batch.lengths - 2)
    _, hint_logits, (lh, hid, nxt) = time_loop(step, bound, inputs, (hidden, hints), num_steps, batch.num_steps, last)
    out = jax.vmap(bound.outputs)({**inputs, **lh}, hid, nxt)
    return predictions.finish_logits(spec, out, key), hint_logits
