"""Interfaces that lose nothing: against their equations in float64, and what they promise."""

import functools
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors

import narkit
from narkit.fused import recognition
from narkit.models.comparisons import compare, comparisons
from narkit.models.edge_pointers import PAIR_SIZE, is_edge_pointer
from narkit.models.encoders import as_values
from narkit.models.network import DeviceBatch
from narkit.models.pointer_decoders import points
from narkit.models.processors.team import TEAM
from narkit.models.serialization import ModelFileError
from narkit.models.unrolling import unroll
from narkit.spec import Kind, Location, Stage

NODES, HIDDEN = 4, 5
ALL = {"edge_pointers": "lossless", "node_pointers": "both", "keep_pointers": True, "comparisons": True}
ALL |= {"growing_hints": True}
SHOWING = functools.partial(TEAM, latents=True)


def perturbed(reasoner, seed=0):
    """The network with parameters, biases and gates too, that are random."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: leaf + 0.3 * rng.normal(size=leaf.shape), reasoner)


def reading_of(algorithm, seed=1):
    """Values of all probes of an instance, where pointers are any distributions and hints any numbers."""
    rng = np.random.default_rng(seed)
    values = {}
    for name, probe in narkit.ALGORITHMS[algorithm].transformed_spec.items():
        if probe.stage is not Stage.OUTPUT:
            shape = probe.shape(NODES) + ((NODES,) if points(probe) else ())
            drawn = rng.uniform(size=shape)
            values[name] = jnp.asarray(drawn / drawn.sum(-1, keepdims=True) if points(probe) else drawn)
    return values, jnp.asarray(rng.normal(size=(NODES, HIDDEN)))


def at(linear, values):
    return values @ linear.weight + linear.bias


def encode(network, name, v):
    """The features of nodes and edges, and the scalars that edge pointers can point at."""
    spec, encoders = network.spec(name), network.encoders[name]
    x, e, node, edge = jnp.zeros((NODES, HIDDEN)), jnp.zeros((NODES, NODES, HIDDEN)), [], []
    for probe, linears in encoders.linears.items():
        if is_edge_pointer(spec[probe]):
            e = e + at(linears[0], v[probe].mean(0)[..., None]) + at(linears[1], v[probe].mean(1)[..., None])
        elif spec[probe].location is Location.NODE and not points(spec[probe]):
            x, node = x + at(linears[0], v[probe][..., None]), [*node, v[probe]]
        else:
            e, edge = e + at(linears[0], v[probe][..., None]), [*edge, v[probe]]
    node, edge = jnp.stack(node, -1), jnp.stack(edge, -1)
    for probe, linear in (encoders.pointed_at or {}).items():
        rows = [
            sum(v[probe][i, j, k] * jnp.concatenate([edge[i, k], edge[k, j], node[k]]) for k in range(NODES))
            for i in range(NODES)
            for j in range(NODES)
        ]
        e = e + at(linear, jnp.stack(rows).reshape(NODES, NODES, -1))
    return x, e


def literally(network, name, v, hidden):
    """A step of TEAM whose decoders read latents, with every option of the interfaces, written out."""
    spec = network.spec(name)
    for compared, (left, right) in comparisons(narkit.ALGORITHMS[name].transformed_spec).items():
        if compared in spec:
            v = {**v, compared: jnp.where(v[left][:, None] < v[right][None], 1.0, 0.0)}
    x, e = encode(network, name, v)
    tea, messages = network.processor.attention, network.processor.message_passing
    g = jnp.zeros(HIDDEN)
    t = at(tea.node_i, x)[:, None, None] + at(tea.node_j, x)[None, :, None] + at(tea.node_k, x)[None, None]
    t = t + at(tea.edge_ij, e)[:, :, None] + at(tea.edge_ik, e)[:, None] + at(tea.edge_jk, e)[None] + at(tea.graph, g)
    logits = jnp.where(t > 0, t, tea.slope * t) @ tea.attention[0] + tea.attention_bias[0]
    for probe, b in ((network.attention_terms or {}).get(name) or {}).items():
        P = v[probe]
        logits = logits + b[0] * P + b[1] * P.transpose(0, 2, 1) + b[2] * P.transpose(2, 1, 0)
    alpha = jnp.exp(logits) / jnp.exp(logits).sum(-1, keepdims=True)
    latents = jnp.maximum((alpha[..., None] * at(tea.value, e)[:, None]).sum(2), 0)

    z = jnp.concatenate([x, hidden], -1)
    m = at(messages.receiver, z)[None] + at(messages.sender, z)[:, None] + at(messages.edge, latents)
    m = m + at(messages.graph, g)
    for linear in messages.mlp:
        m = at(linear, jnp.maximum(m, 0))
    heard = m.max(0)
    before = jnp.maximum(at(messages.from_nodes, z) + at(messages.from_messages, heard), 0)
    spread = jnp.sqrt(before.var(-1, keepdims=True) + 1e-5)
    update = (before - before.mean(-1, keepdims=True)) / spread * messages.norm.scale + messages.norm.offset
    gate = jnp.maximum(at(messages.gate.from_nodes, z) + at(messages.gate.from_messages, heard), 0)
    openness = 1 / (1 + jnp.exp(-at(messages.gate.out, gate)))
    after = openness * update + (1 - openness) * hidden

    z, ee = jnp.concatenate([x, hidden, after], -1), jnp.concatenate([e, latents], -1)
    decoders = network.hint_decoders[name].by_probe | network.output_decoders[name].by_probe
    return after, {p: decode(network, name, d, spec[p], z, ee, v, alpha) for p, d in decoders.items()}


def decode(network, name, d, probe, z, e, v, alpha):
    spec, read = network.spec(name), sorted(network.encoders[name].linears)
    if not points(probe):
        logits = at(d.on_nodes[0], z)
        if probe.location is Location.EDGE:
            logits = logits[:, None] + at(d.on_nodes[1], z)[None] + at(d.on_edges[0], e)
        return logits[..., 0]
    a, b = at(d.on_nodes[0], z), at(d.on_nodes[1], z)
    if probe.location is Location.NODE:
        ends = jnp.swapaxes(b[:, None] + at(d.on_edges[0], e), 0, 1)  # b_p + e_pi
        if d.on_reverse is not None:
            ends = ends + at(d.on_reverse, e)
        logits = at(d.score, jnp.maximum(a[:, None], ends))[..., 0]
        if d.keep is not None:
            gates = at(d.keep, z)
            kept = [p for p in read if points(spec[p]) and spec[p].location is Location.NODE]
            logits = logits + sum(gates[:, place, None] * v[p] for place, p in enumerate(kept))
        return logits
    pairs = a[:, None] + b[None] + at(d.on_edges[0], e)
    logits = at(d.score, jnp.maximum(pairs[:, :, None], at(d.on_nodes[2], z)[None, None]))[..., 0]
    whole = d.edge_pointer
    if whole is not None:
        query = at(whole.query_nodes[0], z)[:, None] + at(whole.query_nodes[1], z)[None] + at(whole.query_edge, e)
        to, away = at(whole.keys[0], e), at(whole.keys[1], e)
        by_pair = (query[:, :, None, :PAIR_SIZE] * to[:, None]).sum(-1)
        by_pair = by_pair + (query[:, :, None, PAIR_SIZE : 2 * PAIR_SIZE] * away.swapaxes(0, 1)[None]).sum(-1)
        logits = logits + by_pair / 4
        for place, p in enumerate(whole.read):
            gamma = query[..., 2 * PAIR_SIZE + place, None]
            kappa = query[..., 2 * PAIR_SIZE + len(whole.read) + place, None]
            followed = sum(alpha[:, :, m, None] * v[p][m][None] for m in range(NODES))
            logits = logits + gamma * v[p] + kappa * followed
    return logits


@pytest.mark.parametrize("algorithm", ["floyd_warshall", "optimal_bst", "insertion_sort"])
def test_values_and_gradients(algorithm):
    with jax.enable_x64(True):
        network = perturbed(narkit.Reasoner(algorithm, SHOWING, HIDDEN, key=jax.random.key(0), **ALL))
        values, hidden = reading_of(algorithm)
        rng = np.random.default_rng(3)

        def ours(network):
            bound = network.bind(algorithm)
            batch = {name: value[None] for name, value in values.items()}
            spec = narkit.ALGORITHMS[algorithm].transformed_spec
            here, hints, _ = bound.step(bound.read(compare(spec, batch, bound.encoded)), hidden[None])
            logits = hints | bound.outputs(here)
            return here.next_hidden[0], {name: value[0] for name, value in logits.items()}

        found, expected = jax.jit(ours)(network), jax.jit(lambda n: literally(n, algorithm, values, hidden))(network)
        assert found[1].keys() == expected[1].keys()
        jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-8, atol=1e-10), found, expected)
        cotangents = jax.tree.map(lambda value: jnp.asarray(rng.normal(size=value.shape)), expected)

        def pulled(function):
            return jax.jit(jax.grad(lambda n: sum(jax.tree.leaves(jax.tree.map(jnp.vdot, cotangents, function(n))))))

        gradient = pulled(ours)(network)
        literal = pulled(lambda n: literally(n, algorithm, values, hidden))(network)
        jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-6, atol=1e-8), gradient, literal)
        assert all(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(network.attention_terms or ()))


def run_kept(reasoner, algorithm, pointer, num_steps=200):
    """The share of true pointers of a first step that are still the likeliest after each of many steps, of 64 nodes."""
    batch = DeviceBatch.of(narkit.sample(algorithm, size=64, batch_size=1, seed=0))
    true = np.random.default_rng(1).integers(64, size=batch.hints[pointer].shape[1:]).astype(np.int16)
    first = {**{name: values[0] for name, values in batch.hints.items()}, pointer: true}
    hints = {name: jnp.repeat(jnp.asarray(value)[None], num_steps + 1, 0) for name, value in first.items()}
    batch = eqx.tree_at(lambda b: (b.hints, b.lengths), batch, (hints, jnp.array([num_steps + 1])))

    def share(logits, truth, in_time):
        return {"kept": (logits[pointer].argmax(-1) == truth[pointer]).mean(tuple(range(1, true.ndim)))}

    _, found = jax.jit(lambda r, b: unroll(r, b, keep_hints=share))(reasoner, batch)
    return np.asarray(found["kept"])[:, 0]


def small(reasoner):
    """The network with weights so small that numbers that are fed back do not grow over hundreds of steps."""
    return jax.tree.map(lambda leaf: 0.3 * leaf, reasoner)


def test_a_node_pointer_survives_two_hundred_steps():
    plain = small(narkit.Reasoner("dfs", "mpnn", 8, keep_pointers=True, key=jax.random.key(0)))
    assert run_kept(plain, "dfs", "pi_h")[-1] < 0.2
    encoded = [n for n in plain.encoders["dfs"].linears if n in ("pi_h", "s_prev")]
    bias = jnp.zeros(len(encoded)).at[encoded.index("pi_h")].set(50.0)
    kept = eqx.tree_at(lambda r: r.hint_decoders["dfs"].by_probe["pi_h"].keep.bias, plain, bias)
    assert (run_kept(kept, "dfs", "pi_h") == 1).all()


def test_an_edge_pointer_survives_two_hundred_steps():
    name = "floyd_warshall"
    plain = small(narkit.Reasoner(name, "mpnn", 8, edge_pointers="lossless", key=jax.random.key(0)))
    assert run_kept(plain, name, "Pi_h", 5)[-1] < 0.2
    bias = jnp.zeros(2 * PAIR_SIZE + 1).at[2 * PAIR_SIZE].set(50.0)
    kept = eqx.tree_at(lambda r: r.hint_decoders[name].by_probe["Pi_h"].edge_pointer.query_edge.bias, plain, bias)
    assert (run_kept(kept, name, "Pi_h") == 1).all()


def test_comparisons_are_exact_and_further_inputs():
    batch = DeviceBatch.of(narkit.sample("binary_search", size=6, batch_size=3, seed=0))
    network = narkit.Reasoner("binary_search", "mpnn", 4, comparisons=True, key=jax.random.key(0))
    inputs = network.bind("binary_search").inputs(batch)
    key, target = np.asarray(batch.inputs["key"]), np.asarray(batch.inputs["target"])
    np.testing.assert_array_equal(inputs["key_below_key"], key[:, :, None] < key[:, None])
    np.testing.assert_array_equal(inputs["key_below_target"], key < target[:, None])
    spec = network.spec("binary_search")
    assert spec["key_below_key"].location is Location.EDGE and spec["key_below_target"].location is Location.NODE
    assert all(spec[name].kind is Kind.SCALAR for name in ("key_below_key", "key_below_target"))
    plain = narkit.Reasoner("binary_search", "mpnn", 4, key=jax.random.key(0))
    assert set(plain.bind("binary_search").inputs(batch)) == set(batch.inputs)
    assert comparisons(narkit.ALGORITHMS["bfs"].transformed_spec) == {}


def test_options_that_concern_nothing_change_nothing():
    plain = narkit.Reasoner("bfs", "team", 8, key=jax.random.key(0))
    other = narkit.Reasoner("bfs", "team", 8, edge_pointers="lossless", comparisons=True, key=jax.random.key(0))
    assert [leaf.shape for leaf in jax.tree.leaves(plain)] == [leaf.shape for leaf in jax.tree.leaves(other)]
    assert all(map(jnp.array_equal, jax.tree.leaves(plain), jax.tree.leaves(other)))
    one, two = (jax.eval_shape(lambda r=r: r.bind("bfs")) for r in (plain, other))
    assert jax.tree.structure(one) == jax.tree.structure(two)


def test_options_leave_the_other_parameters_as_they_are():
    plain = narkit.Reasoner("floyd_warshall", "team", 8, key=jax.random.key(0))
    lossless = narkit.Reasoner("floyd_warshall", "team", 8, edge_pointers="lossless", key=jax.random.key(0))
    paths = {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(lossless)}
    for path, leaf in jax.tree_util.tree_leaves_with_path(plain):
        assert jnp.array_equal(paths[jax.tree_util.keystr(path)], leaf)
    assert len(paths) > len(jax.tree.leaves(plain))


def check(algorithm, processor="team", **options):
    def make(key):
        return narkit.Reasoner(algorithm, processor, 128, key=key, **options)

    recognition.check_network(eqx.filter_eval_shape(make, jax.random.key(0)), None)


def test_kernels_are_offered_what_does_not_concern_an_algorithm():
    check("bfs", edge_pointers="lossless")
    check("insertion_sort", edge_pointers="lossless")
    check("insertion_sort", comparisons=True)  # further inputs, which kernels read like others


def test_kernels_know_edge_pointers_that_are_read_whole():
    for processor in ("team", "team_plus", "triplet_gmpnn", "mpnn"):
        check("floyd_warshall", processor, edge_pointers="lossless")


@pytest.mark.parametrize(
    ("algorithm", "options", "reason"),
    [
        ("bfs", {"node_pointers": "both"}, "Decoder has the option on_reverse"),
        ("bfs", {"keep_pointers": True}, "Decoder has the option keep"),
    ],
)
def test_kernels_refuse_what_they_do_not_know(algorithm, options, reason):
    with pytest.raises(recognition.Refusal, match=f"{reason}.*which no kernel knows"):
        check(algorithm, **options)


def header_of(path):
    with safetensors.safe_open(path, framework="numpy") as file:
        return json.loads(file.metadata()["narkit"])


def test_files_say_which_interfaces_a_network_has(tmp_path):
    made = narkit.Reasoner("floyd_warshall", "team_plus", 8, key=jax.random.key(0), **ALL)
    narkit.save(made, tmp_path / "all.safetensors")
    again = narkit.load(tmp_path / "all.safetensors")
    assert again.interfaces == made.interfaces and header_of(tmp_path / "all.safetensors")["interfaces"] == ALL
    assert all(map(jnp.array_equal, jax.tree.leaves(made), jax.tree.leaves(again)))
    plain = narkit.Reasoner("floyd_warshall", "team_plus", 8, key=jax.random.key(0))
    narkit.save(plain, tmp_path / "plain.safetensors")
    assert "interfaces" not in header_of(tmp_path / "plain.safetensors")
    assert narkit.load(tmp_path / "plain.safetensors").interfaces == plain.interfaces


def test_a_file_with_an_unknown_interface_is_refused(tmp_path):
    made = narkit.Reasoner("bfs", "mpnn", 4, edge_pointers="lossless", key=jax.random.key(0))
    file = tmp_path / "x.safetensors"
    narkit.save(made, file)
    file.write_bytes(file.read_bytes().replace(b"edge_pointers", b"edge_pointerz"))
    with pytest.raises(ModelFileError, match="did you mean 'edge_pointers'"):
        narkit.load(file)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("edge_pointers", "losless", "lossless"),
        ("node_pointers", "booth", "both"),
        ("keep_pointers", "yes", "keep_pointers: expected true or false"),
        ("comparisons", 2, "comparisons: expected true or false"),
    ],
)
def test_wrong_options_are_refused(option, value, message):
    with pytest.raises(ValueError, match=message):
        narkit.TrainConfig(algorithms=("bfs",), **{option: value})


def test_a_reasoner_refuses_unknown_words():
    with pytest.raises(ValueError, match="lossless"):
        narkit.Reasoner("bfs", "mpnn", 4, edge_pointers="losless", key=jax.random.key(0))


def test_settings_reach_the_network():
    from narkit.training.config import parse_settings
    from narkit.training.evaluation import as_run
    from narkit.training.programs import Programs

    words = ["edge_pointers=lossless", "node_pointers=both", "keep_pointers=true", "comparisons=yes", "hidden_size=4"]
    words += ["growing_hints=true"]
    config = narkit.TrainConfig(algorithms=("matrix_chain_order",), processor="team_plus", **parse_settings(words))
    assert narkit.TrainConfig.from_json(config.to_json()) == config
    reasoner = Programs(config).reasoner(Programs(config).initial_state().parameters[0])
    assert reasoner.interfaces.options == ALL
    assert as_run(reasoner)[0].interfaces == reasoner.interfaces
    with pytest.raises(ValueError, match="lossless"):
        config.replace(edge_pointers="loss")


def test_predictions_of_all_kinds_of_batches():
    """Multi-algorithm networks have each their own, and hints that are not fed back leave nothing to keep."""
    several = narkit.Reasoner(["floyd_warshall", "bfs"], "team_plus", 4, key=jax.random.key(0), **ALL)
    assert several.attention_terms is not None and list(several.attention_terms) == ["floyd_warshall"]
    decoded = narkit.Reasoner("floyd_warshall", "team_plus", 4, "decoded", key=jax.random.key(0), **ALL)
    assert decoded.attention_terms is None and decoded.encoders["floyd_warshall"].pointed_at is None
    batch = narkit.sample("floyd_warshall", size=4, batch_size=2, seed=0)
    for network in (several, decoded):
        predictions = narkit.predict(network, batch)
        assert np.isfinite(predictions.output_logits["Pi"]).all()
        outputs = {name: jnp.asarray(values) for name, values in predictions.outputs.items()}
        assert as_values(network.spec("floyd_warshall"), outputs, 4)["Pi"].shape == (2, 4, 4, 4)
