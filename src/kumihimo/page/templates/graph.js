// page data + address -> the side panel: reports, entities, sources, search
"use strict";

const byId = (id) => document.getElementById(id);
const figure = new Intl.NumberFormat("en");
const LABELS = JSON.parse(byId("labels").textContent); // in the language of the page
const T = (text, ...values) => (LABELS[text] || text).replace(/\{(\d)\}/g, (_, n) => values[n]);
const countOf = (n, one, many = `${one}s`) => T(`{0} ${n === 1 ? one : many}`, figure.format(n));

// Create an element. Texts are inserted as text, never as markup.
const make = (tag, properties = {}, ...inside) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element && name !== "list") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...inside.filter((part) => part !== null && part !== ""));
  return element;
};
const link = (target, text) => make("a", { href: `#${target}` }, text || target);

const nameOf = (target) => {
  const n = Number(target.slice(1));
  if (target[0] === "e") return NODES[n].name;
  if (target[0] === "r") return `${NODES[EDGES[n].a].name} – ${NODES[EDGES[n].b].name}`;
  if (target[0] === "k") return DATA.claims[n][0];
  return CIRCLES[n].title;
};

// -- Markdown: paragraphs, lists, headings and bold, with links to references

const bold = (text) => text.split("**").map((part, i) => (i % 2 ? make("strong", {}, part) : part));
const inlineParts = (parts) => parts.flatMap((part) => (typeof part === "string" ? bold(part) : [references(part)]));
const references = (targets) => {
  const links = targets.flatMap((target, i) => [i ? ", " : "", link(target, nameOf(target))]);
  return make("span", { className: "refs" }, "[", ...links, "]");
};
const paragraphs = (parts) => {
  const container = make("div");
  let block = null, list = null;
  const begin = (line) => {
    const item = line.match(/^\s*(?:[-*•]|\d+[.)])\s+(.*)/), heading = line.match(/^#+\s+(.*)/);
    if (item) { list ||= container.appendChild(make("ul")); block = list.appendChild(make("li")); return item[1]; }
    list = null;
    block = container.appendChild(make(heading ? "h4" : "p"));
    return heading ? heading[1] : line;
  };
  for (const part of parts) {
    if (typeof part !== "string") { if (!block) begin(""); block.append(references(part)); continue; }
    part.split("\n").forEach((line, i) => {
      if (i && !line.trim()) { block = null; return; }
      const starts = i && /^\s*(?:[-*•]|\d+[.)]|#+)\s/.test(line);
      const text = !block || starts ? (line.trim() ? begin(line) : "") : i ? ` ${line}` : line;
      if (text) block.append(...bold(text));
    });
  }
  return container;
};

// -- long lists show their first items

const shortList = (items, limit, render, tag = "ul") => {
  const list = make(tag, { className: "plain" }, ...items.slice(0, limit).map(render));
  if (items.length <= limit) return [list];
  const more = make("button", { type: "button" }, T("Show all {0}", figure.format(items.length)));
  more.onclick = () => {
    list.append(...items.slice(limit).map(render));
    list.children[limit]?.querySelector("a")?.focus();
    more.remove();
  };
  return [list, more];
};

// -- the views

const trail = (circle, inclusive) => {
  const above = [];
  for (let n = inclusive ? circle : CIRCLES[circle].parent; n >= 0; n = CIRCLES[n].parent) above.unshift(n);
  const links = above.flatMap((n) => [" › ", link(`c${n}`, CIRCLES[n].title)]);
  return make("nav", { className: "path", "aria-label": T("Where this is") }, link("", T("All reports")), ...links);
};

const entity = (n) => {
  const node = NODES[n], type = DATA.types[node.type];
  const others = graph.neighbours(n, Infinity).map((other) =>
    [other, node.edges.find((e) => EDGES[e].a === other || EDGES[e].b === other)]);
  const quote = ([uri, place, text]) =>
    make("blockquote", {}, ...highlight(withEllipses(text), [node.name, ...node.forms]),
      make("cite", {}, DATA.uris[uri], place ? `, ${place}` : ""));
  const relation = ([other, e]) => make("li", {}, link(`e${other}`, NODES[other].name), " ",
    make("a", { href: `#r${e}`, className: "soft", title: T("The relation") }, EDGES[e].text || T("named together")));
  return [
    node.leaf >= 0 ? trail(node.leaf, true) : rootTrail(),
    make("h2", {}, node.name),
    make("p", { className: "soft" }, type ? make("span", { className: "mark" }, type) : "",
      `${countOf(node.mentions, "mention")}, ${countOf(node.edges.length, "relation")}`),
    node.forms.length ? make("p", { className: "soft" }, T("Also: {0}", node.forms.join(", "))) : "",
    node.text ? make("p", {}, node.text) : "",
    node.sources.length ? make("h3", {}, T("In the documents")) : "",
    ...node.sources.map(quote),
    node.mentions > node.sources.length && node.sources.length
      ? make("p", { className: "soft" }, T("All places: "), make("code", {}, `kumi trace entities:${node.id}`)) : "",
    others.length ? make("h3", {}, T("Related to")) : "",
    ...(others.length ? shortList(others, 25, relation) : []),
  ];
};
const rootTrail = () => make("nav", { className: "path", "aria-label": T("Where this is") }, link("", T("All reports")));

// Add an ellipsis where the text is cut out of a sentence.
const withEllipses = (text) => `${/^\p{Ll}/u.test(text) ? "… " : ""}${text}${/[.!?。！？…”"』」)]$/.test(text) ? "" : " …"}`;
const highlight = (text, forms) => {
  for (const form of forms) {
    const at = text.toLowerCase().indexOf(form.toLowerCase());
    if (at >= 0) return [text.slice(0, at), make("mark", {}, text.slice(at, at + form.length)), text.slice(at + form.length)];
  }
  return [text];
};

const community = (n) => {
  const circle = CIRCLES[n], report = circle.report;
  const parts = circle.children.map((child) => link(`c${child}`, CIRCLES[child].title));
  const members = topMembers(circle, 500).map((m) => [m, NODES[m]]);
  const member = ([m, node]) => make("li", {}, link(`e${m}`, node.name), " ",
    make("span", { className: "soft" }, DATA.types[node.type]));
  return [
    trail(n, false),
    make("h2", {}, circle.title),
    make("p", { className: "soft" }, make("span", { className: "mark" }, T("level {0}", circle.level)),
      report ? make("span", { className: "mark" }, T("rating {0} of 10", report[1])) : "", countOf(circle.size, "entity", "entities")),
    ...(report ? reportBody(report, circle) : [make("p", { className: "note" }, T("This community has no report: `kumi index` with a chat model writes it."))]),
    parts.length ? make("h3", {}, T("Its parts")) : "",
    ...(parts.length ? shortList(parts, 25, (part) => make("li", {}, part)) : []),
    make("h3", {}, parts.length ? T("Most connected in it") : T("In it")),
    ...shortList(members, parts.length ? 15 : 50, member),
  ];
};

const reportBody = ([, , reason, summary, findings, maker, cutOff, changes], circle) => [
  maker === "rows" ? make("p", { className: "note" }, T("By rule: descriptions of its entities and relations, put together without a model.")) : "",
  changes ? make("p", { className: "note" }, countOf(changes, "change since it was written", "changes since it was written")) : "",
  paragraphs(summary),
  ...findings.flatMap(([head, body]) => [make("h3", {}, ...inlineParts(head)), paragraphs(body)]),
  cutOff ? make("p", { className: "note" }, `${countOf(cutOff, "more finding")}: `, make("code", {}, `kumi report ${circle.id}`)) : "",
  reason.length ? make("h3", {}, T("Why this rating")) : "",
  reason.length ? paragraphs(reason) : "",
];

const relation = (n) => {
  const edge = EDGES[n];
  return [
    rootTrail(),
    make("h2", {}, link(`e${edge.a}`, NODES[edge.a].name), " – ", link(`e${edge.b}`, NODES[edge.b].name)),
    make("p", { className: "soft" }, countOf(edge.weight, "mention")),
    edge.text ? make("p", {}, edge.text) : "",
    edge.keywords ? make("p", { className: "soft" }, edge.keywords) : "",
  ];
};

const claim = (n) => {
  const [name, type, status, text, ends, when] = DATA.claims[n];
  const who = ends.filter((end) => end >= 0).flatMap((end, i) => [i ? " – " : "", link(`e${end}`, NODES[end].name)]);
  return [
    rootTrail(), make("h2", {}, ...(who.length ? who : [name])),
    make("p", { className: "soft" }, make("span", { className: "mark" }, type), [status, when].filter(Boolean).join(", ")),
    make("p", {}, text),
  ];
};

// -- the tree of reports: children are created when a community is opened

const treeBranch = (n, open) => {
  const circle = CIRCLES[n], item = make("li", { id: `tree${n}` });
  const row = make("div", { className: "row" });
  const title = link(`c${n}`, circle.title);
  const size = make("span", { className: "soft", title: "entities" }, figure.format(circle.size));
  item.append(row);
  if (!circle.children.length) { row.append(make("span", { className: "leaf" }), title, size); return item; }
  const button = make("button", { type: "button", "aria-expanded": "false", "aria-label": T("Parts of {0}", circle.title) });
  button.onclick = () => {
    const opened = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!opened));
    if (opened) item.lastChild.remove();
    else item.append(make("ul", {}, ...circle.children.map((child) => treeBranch(child, false))));
  };
  row.append(button, title, size);
  if (open) button.onclick();
  return item;
};

const overview = () => {
  if (!CIRCLES.length) return [make("p", { className: "note" }, T("The index has no communities yet.")), ...mostConnected()];
  const small = ROOTS.filter((n) => CIRCLES[n].size < 3), large = ROOTS.filter((n) => CIRCLES[n].size >= 3);
  const visibleRoots = large.length ? large : ROOTS;
  const tree = shortList(visibleRoots, 200, (n) => treeBranch(n, visibleRoots.length < 4));
  tree[0].setAttribute("aria-label", T("Communities by size"));
  const rest = large.length && small.length ? make("details", {}, make("summary", {}, countOf(small.length, "community of one or two", "communities of one or two")),
    ...shortList(small, 200, (n) => treeBranch(n, false))) : "";
  return [make("h2", {}, T("Reports")), make("div", { className: "tree" }, ...tree, rest)];
};
const mostConnected = () => [make("h2", {}, T("Most connected")), ...shortList(NODES.map((node, n) => [n, node]), 50, ([n, node]) =>
  make("li", {}, link(`e${n}`, node.name)))];

// -- the address selects the view

const VIEWS = { e: [entity, NODES], c: [community, CIRCLES], r: [relation, EDGES], k: [claim, DATA.claims] };
let scrolled = 0, before = "";

const show = (moved) => {
  const target = location.hash.slice(1), n = Number(target.slice(1));
  const [view, rows] = VIEWS[target[0]] || [null, []];
  const valid = view && /^\d+$/.test(target.slice(1)) && n < rows.length;
  const main = byId("main");
  if (!before) scrolled = main.scrollTop;
  Object.assign(graph.picked, { node: -1, circle: -1, edge: -1 });
  main.replaceChildren(...(valid ? view(n) : overview()).filter((part) => part !== ""));
  main.scrollTop = valid ? 0 : scrolled;
  if (moved && document.activeElement === document.body) main.focus({ preventScroll: true }); // the focused element is gone
  before = valid ? target : "";
  byId("live").textContent = valid ? nameOf(target) : T("All reports");
  document.title = valid ? `${nameOf(target)} – ${DATA.title}` : T("{0}: graph and reports", DATA.title);
  graph.canvas.setAttribute("aria-label", T("The graph: {0}.", byId("counts").textContent) + (valid ? ` ${T("Chosen: {0}", nameOf(target))}` : ""));
  if (valid) pick(target[0], n);
  else if (moved) graph.all();
  graph.redraw();
};
const pick = (kind, n) => {
  if (kind === "e") { graph.picked.node = n; graph.toNode(n); }
  if (kind === "c") { graph.picked.circle = n; graph.toCircle(n); }
  if (kind === "r") { graph.picked.edge = n; graph.picked.node = EDGES[n].a; graph.toNode(EDGES[n].a); }
};
const openTarget = ({ node, circle }) => {
  if (node >= 0) location.hash = `e${node}`;
  else if (circle >= 0) location.hash = `c${circle}`;
};

// -- search

const foldCase = (text) => text.normalize("NFKC").toLowerCase();
let index = null;
const searchRows = (query) => {
  index ||= [
    ...NODES.map((node, n) => [[node.name, ...node.forms].map(foldCase).join("\n"), `e${n}`, DATA.types[node.type]]),
    ...CIRCLES.map((circle, n) => [foldCase(circle.title + "\n" + (circle.report ? circle.report[3].filter((p) => typeof p === "string").join(" ") : "")),
      `c${n}`, `${circle.report ? T("report") : T("community")}, ${countOf(circle.size, "entity", "entities")}`]),
  ];
  const words = foldCase(query).split(/\s+/).filter(Boolean);
  const phrase = words.join(" ");
  const matches = index.filter(([text]) => words.every((word) => text.includes(word)));
  const rank = ([text]) => (text.split("\n").includes(phrase) ? 0 : text.startsWith(phrase) ? 1 : 2);
  return matches.map((row, n) => [rank(row), n, row]).sort((a, b) => a[0] - b[0] || a[1] - b[1]).map(([, , row]) => row);
};

const updateSearch = () => {
  const query = byId("search").value.trim(), place = byId("found");
  place.hidden = !query;
  if (!query) return;
  const rows = searchRows(query);
  const row = ([, target, what]) => make("li", {}, link(target, nameOf(target)), " ", make("span", { className: "soft" }, what));
  place.replaceChildren(make("p", { className: "soft", role: "status" }, rows.length ? T("{0} found", figure.format(rows.length)) : T("No results.")),
    ...(rows.length ? shortList(rows, 40, row) : []));
  place.scrollTop = 0;
};

const searchKey = (event) => {
  const links = [...byId("found").querySelectorAll("a")];
  const at = links.indexOf(document.activeElement);
  if (event.key === "Escape") { byId("search").value = ""; updateSearch(); byId("search").focus(); return; }
  if (event.key === "Enter" && at < 0 && links.length) { location.hash = links[0].hash; event.preventDefault(); return; }
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step || byId("found").hidden) return;
  event.preventDefault();
  (at + step < 0 ? byId("search") : links[Math.min(at + step, links.length - 1)] || byId("search")).focus();
};

// -- pointer and keys on the canvas

const bindPointer = () => {
  const { canvas, pan, zoom } = graph;
  const isClick = bindGestures(canvas, { pan, zoom, hover: tip });
  canvas.addEventListener("click", (event) => { if (isClick()) openTarget(graph.at(event.offsetX, event.offsetY)); });
  const keys = {
    ArrowLeft: () => graph.pan(60, 0), ArrowRight: () => graph.pan(-60, 0), ArrowUp: () => graph.pan(0, 60),
    ArrowDown: () => graph.pan(0, -60), "+": () => graph.zoom(1.35), "=": () => graph.zoom(1.35), "-": () => graph.zoom(1 / 1.35),
    0: () => graph.all(), Enter: () => openTarget(graph.at(...graph.middle)), Escape: () => { location.hash = ""; },
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  canvas.addEventListener("focus", () => { graph.focused = canvas.matches(":focus-visible"); });
  canvas.addEventListener("blur", () => { graph.focused = false; });
  byId("in").onclick = () => graph.zoom(1.5);
  byId("out").onclick = () => graph.zoom(1 / 1.5);
  byId("all").onclick = () => graph.all();
};

// Describe the item below the pointer.
const tip = (place) => {
  const on = place ? graph.at(...place) : { node: -1, circle: -1 }, box = byId("tip");
  graph.canvas.classList.toggle("over", on.node >= 0 || on.circle >= 0);
  if (on.node !== graph.hover.node || on.circle !== graph.hover.circle) { Object.assign(graph.hover, on); graph.redraw(); }
  box.hidden = on.node < 0 && on.circle < 0;
  if (box.hidden) return;
  const node = NODES[on.node], circle = CIRCLES[on.circle];
  const what = node ? [DATA.types[node.type], countOf(node.edges.length, "relation")].filter(Boolean).join(", ")
    : `${T("level {0}", circle.level)}, ${countOf(circle.size, "entity", "entities")}`;
  const more = node && node.text ? ` ${node.text.slice(0, 160)}${node.text.length > 160 ? "…" : ""}` : "";
  box.replaceChildren(make("b", {}, node ? node.name : circle.title), make("i", {}, what), more ? make("br") : "", more);
  const { clientWidth: width, clientHeight: height } = graph.canvas;
  box.style.left = `${Math.max(4, Math.min(place[0] + 14, width - box.offsetWidth - 8))}px`;
  box.style.top = `${place[1] + 18 + box.offsetHeight > height ? Math.max(4, place[1] - box.offsetHeight - 12) : place[1] + 18}px`;
};

const legend = () => {
  const kinds = DATA.types.map((type, n) => [type, kindOf(n)]).filter(([type, kind]) => type && kind < KINDS - 1);
  if (kinds.length < DATA.types.length) kinds.push([T("others"), KINDS - 1]);
  const space = "http://www.w3.org/2000/svg"; // a namespace, not an address
  byId("legend").append(...kinds.map(([type, kind]) => {
    const icon = document.createElementNS(space, "svg"), corners = SHAPES[kind];
    icon.setAttribute("viewBox", "-1.3 -1.3 2.6 2.6");
    icon.setAttribute("aria-hidden", "true");
    const drawn = icon.appendChild(document.createElementNS(space, corners ? "polygon" : "circle"));
    drawn.setAttribute(corners ? "points" : "r", corners ? corners.join(" ") : "1");
    drawn.style.fill = `var(--t${kind})`;
    return make("li", {}, icon, type);
  }));
  byId("legend").hidden = kinds.length < 2;
};

byId("title").textContent = DATA.title;
byId("counts").textContent = [countOf(NODES.length, "entity", "entities"), countOf(EDGES.length, "relation"),
  countOf(CIRCLES.length, "community", "communities"), countOf(DATA.reports.filter(Boolean).length, "report")]
  .slice(0, DATA.reports.some(Boolean) ? 4 : 3).join(", ");
byId("search").addEventListener("input", updateSearch);
byId("side").addEventListener("keydown", (event) => { if (event.target === byId("search") || byId("found").contains(event.target)) searchKey(event); });
addEventListener("hashchange", () => show(true));
legend();
bindPointer();
show(false);
