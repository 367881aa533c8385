// Values of the whole instance: phases, sums, clocks.
function captions(moment) {
  const shown = (moment.isAnswer ? outputs : hints).filter(
    (probe) => probe.location === "graph" && moment.isOn(probe.drawnAs),
  );
  if (!shown.length) return [];
  const line = html("p", { class: "caption" });
  shown.forEach((probe, index) => {
    const wrong = moment.isWrong(probe.drawnAs),
      changed = moment.hasChanged(probe.drawnAs);
    if (index) line.append(" · ");
    line.append(
      `${probe.name}: `,
      html(
        "b",
        { class: classes(wrong && "wrong", changed && "changed"), "data-caption": probe.name },
        `${said(probe, moment.value(probe.drawnAs))}${changed ? "*" : ""}${wrong ? " ≠" : ""}`,
      ),
    );
  });
  return [line];
}

// Queues, stacks and orders as lists of nodes.
function lists(moment) {
  if (moment.isAnswer && !run.drawing.lists.some((list) => list.next && moment.probe(list.next))) return [];
  return run.drawing.lists
    .filter((list) => moment.probe(list.set || list.next) && moment.probe(list.set || list.first))
    .map((list) => {
      const members = list.set ? inSet(moment, list) : chain(moment, list);
      const line = html("p", { class: "list" }, html("b", {}, `${list.title}: `));
      for (const { node, text, wrong } of members)
        line.append(
          html("span", { class: wrong ? "wrong" : null, "data-member": node }, `${text}${wrong ? " ≠" : ""}`),
        );
      if (!members.length) line.append("empty");
      return line;
    });
}

function inSet(moment, { set, by }) {
  const members = [...Array(size).keys()].filter((node) => moment.value(set, node) === 1);
  members.sort((a, b) => moment.value(by, a) - moment.value(by, b));
  return members.map((node) => ({
    node,
    text: `${label(node)} ${said(moment.probe(by), moment.value(by, node))}`,
    wrong: moment.isWrong(set, node),
  }));
}

function chain(moment, { first, next }) {
  const members = [],
    seen = new Set();
  let node = moment.value(first);
  while (node >= 0 && !seen.has(node)) {
    seen.add(node);
    members.push({
      node,
      text: label(node),
      wrong: moment.isWrong(next, node) || (members.length === 0 && moment.isWrong(first)),
    });
    node = moment.value(next, node);
  }
  return members;
}
