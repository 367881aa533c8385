// Triplet Edge Attention: how much each third node counts for one edge.
let chosen = null; // [i, j]
let half = null; // the first end of an edge that is being chosen node by node
let attention = null; // bytes (kept step, i, j, k), once they are unpacked

async function unpackAttention() {
  if (attention || !run.attention || !run.attention.kept) return;
  const { data, kept, nodes } = run.attention;
  const packedBytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packedBytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const perStep = nodes ** 3;
  for (let at = perStep; at < kept * perStep; at++) bytes[at] += bytes[at - perStep]; // modulo 256, as it was packed
  attention = bytes;
}

// The weights (one per third node) with which the network makes the next step; null where there is none.
function attentionAt(step, i, j) {
  if (!attention || step >= Math.max(1, run.steps - 1)) return null;
  const { every, kept, nodes, levels } = run.attention;
  const at = Math.min(Math.floor(step / every), kept - 1) * nodes ** 3 + (i * nodes + j) * nodes;
  return {
    step: Math.min(Math.floor(step / every), kept - 1) * every,
    weights: Array.from(attention.subarray(at, at + nodes), (byte) => byte / levels),
  };
}

async function choose(i, j) {
  chosen = i === null ? null : [i, j];
  half = null;
  $$("from").value = i === null ? "" : i;
  $$("to").value = i === null ? "" : j;
  await unpackAttention();
  show(current);
}

function drawAttention(picture, moment, geometry) {
  if (!chosen || moment.side !== "network") return;
  const found = attentionAt(moment.step, ...chosen);
  if (!found) return;
  found.weights.forEach((weight, node) => {
    const { x, y } = geometry.nodes[node];
    if (weight < 0.01) return;
    const reach = geometry.radius + 4 + 26 * Math.sqrt(weight);
    picture.append(svg("circle", { class: "attended", cx: x, cy: y, r: reach, "data-attended": node }));
    if (weight >= 0.095)
      picture.append(
        svg(
          "text",
          { class: "small halo attention-text", x: x - geometry.half[node] * 0.5 - 16, y: y - geometry.radius - 8 },
          `${Math.round(100 * weight)} %`,
        ),
      );
  });
  if (chosen[0] !== chosen[1])
    picture.append(svg("path", { class: "attended-edge", d: link(geometry, ...chosen, edgeBend(...chosen)).path }));
}

// Wide invisible lines on top of everything, so that an edge is easy to hit.
function drawEdgeTargets(picture, geometry) {
  for (const [i, j] of run.drawing.edges) {
    const target = svg(
      "path",
      { class: "edge-hit", d: link(geometry, i, j, edgeBend(i, j), 4).path, "data-target": `${i}-${j}` },
      svg(
        "title",
        {},
        `Attention of the edge from ${spoken(i)} to ${spoken(j)}; click again for the other direction`,
      ),
    );
    target.addEventListener(
      "click",
      (event) => (
        event.stopPropagation(),
        chosen && chosen[0] === i && chosen[1] === j ? choose(j, i) : choose(i, j)
      ),
    );
    picture.append(target);
  }
}

// An edge can also be chosen by its two ends, one click each; a cell of a table is an edge by itself.
function chooseByClick(event) {
  const cell = event.target.closest("[data-pair]"),
    node = event.target.closest("[data-node]");
  if (cell) choose(...cell.dataset.pair.split("-").map(Number));
  else if (node && half === null) {
    half = Number(node.dataset.node);
    listAttention(current);
  } else if (node) choose(half, Number(node.dataset.node));
}

function howToChoose() {
  const ways = { graph: "an edge, or one node after another,", table: "a cell" };
  const way = ways[run.drawing.kind] || "one node after another";
  return `Click ${way} in the network’s drawing, or choose an edge here, to see how much each third node counts for it.`;
}

function listAttention(step) {
  const list = $$("weights"),
    text = $$("attention-words");
  list.replaceChildren();
  if (half !== null)
    return void (text.textContent = `From ${spoken(half)}; now click the node to which the edge leads.`);
  if (!run.attention.kept)
    return void (text.textContent = "This instance is too large to keep the attention in the page.");
  if (!chosen) return void (text.textContent = howToChoose());
  const found = attentionAt(step, ...chosen);
  if (!found)
    return void (text.textContent = "After the last step the network attends to nothing any more; go back a step.");
  const kept =
    found.step === step ? "" : ` (kept for every ${run.attention.every}th step; these are of step ${found.step + 1})`;
  const edge = `the edge from ${spoken(chosen[0])} to ${spoken(chosen[1])}`;
  text.textContent = `How much each third node counts for ${edge} when the network makes its next step${kept}:`;
  const order = found.weights.map((weight, node) => [weight, node]).sort((a, b) => b[0] - a[0]);
  for (const [weight, node] of order) {
    const percent = `${(100 * weight).toFixed(weight >= 0.0995 ? 0 : 1)} %`;
    list.append(
      html("span", { "data-third": node }, spoken(node)),
      html("span", { class: "bar", style: `width:${(100 * weight) / order[0][0] || 0}%`, "aria-hidden": "true" }),
      html("span", {}, percent),
    );
  }
}

function prepareAttention() {
  if (!run.attention) return;
  $$("attention").hidden = false;
  $$("below").classList.add("two");
  for (const id of ["from", "to"]) {
    $$(id).append(
      html("option", { value: "" }, "–"),
      ...run.places.map((text, node) => html("option", { value: node }, text)),
    );
    $$(id).addEventListener("change", () => {
      const [i, j] = [$$("from").value, $$("to").value];
      if (i !== "" && j !== "") choose(Number(i), Number(j));
    });
  }
  $$("network").querySelector(".drawing").addEventListener("click", chooseByClick);
  $$("network").classList.add("choosing");
  $$("forget").addEventListener("click", () => choose(null));
}
