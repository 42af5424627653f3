// an entity -> a drawing of it and its neighbours; a click fetches the neighbours of another. Beside it, all as text.
import { announce, byId, countOf, describe, draw, fetchPart, getJson, icon, make, prefix, T } from "./lib.js";
import { bindGestures } from "./gestures.js";
import { bounds, halfWidth, MAX_NAME, reach, seed, settle } from "./graph_layout.js";

const stage = byId("stage"), canvas = byId("canvas"), panel = byId("panel");
const MOST = 150; // on the drawing
const LEAST_SCALE = .85; // names stay readable
const nodes = new Map(), edges = new Map();
const view = { x: 0, y: 0, k: 1 };
const stacked = matchMedia("(max-width: 56rem)"); // the drawing above the panel, not beside it
let here = "", current = null, path = new Set(), steps = new Set(); // entities and relations of a path

// Neighbours of one entity, as many as there is room for.
const neighbourLimit = () => Math.max(8, Math.min(24, Math.round(canvas.clientWidth * canvas.clientHeight / 22_000)));

// -- what is drawn

const addEntities = (entities) => {
  const fresh = entities.filter((entity) => !nodes.has(entity.id));
  for (const entity of fresh) nodes.set(entity.id, { ...entity, open: false });
  return fresh.length;
};
const addRelations = (relations) => {
  for (const relation of relations) {
    const a = nodes.get(relation.source), b = nodes.get(relation.target);
    if (a && b && a !== b) edges.set(relation.id, { id: relation.id, a, b, weight: relation.weight });
  }
};
const nearOf = (id) => [...edges.values()].filter(({ a, b }) => a.id === id || b.id === id).map(({ a, b }) => (a.id === id ? b : a));

// Without room, entities that are neither open nor near the present one go.
const forget = () => {
  const kept = new Set([here, ...nearOf(here).map((node) => node.id), ...path]);
  for (const [id, node] of nodes) if (nodes.size > MOST && !kept.has(id) && !node.open) nodes.delete(id);
  for (const [id, { a, b }] of edges) if (!nodes.has(a.id) || !nodes.has(b.id)) edges.delete(id);
};

const nodeOf = (node) => {
  const r = reach(node);
  const element = draw("g", { class: "node", role: "button", tabindex: -1, "data-id": node.id, "aria-label": `${node.name}, ${countOf(node.mentions, "mention")}` },
    draw("rect", { class: "hit", x: -halfWidth(node), y: -r, width: 2 * halfWidth(node), height: 2 * r + 22 }), draw("circle", { r }), draw("text", { y: r + 15 }));
  element.querySelector("text").textContent = node.name.length > MAX_NAME ? `${node.name.slice(0, MAX_NAME - 1)}…` : node.name;
  element.append(draw("title", {}));
  element.lastChild.textContent = [node.name, node.type].filter(Boolean).join(" · ");
  return element;
};

const paint = () => {
  const lines = [...edges.values()].map((edge) => {
    const near = edge.a.id === here || edge.b.id === here;
    return draw("line", { class: `edge${near ? " is-near" : ""}${steps.has(edge.id) ? " on-path" : ""}`, x1: edge.a.x, y1: edge.a.y, x2: edge.b.x, y2: edge.b.y, "stroke-width": Math.min(4, .6 + Math.log2(edge.weight + 1) * .6) });
  });
  byId("edges").replaceChildren(...lines);
  const focused = document.activeElement?.closest?.(".node")?.dataset.id;
  const drawn = [...nodes.values()].sort((a, b) => a.mentions - b.mentions).map((node) => {
    node.element ||= nodeOf(node);
    node.element.setAttribute("transform", `translate(${node.x.toFixed(1)} ${node.y.toFixed(1)})`);
    node.element.classList.toggle("is-here", node.id === here);
    node.element.classList.toggle("is-open", node.open);
    node.element.classList.toggle("on-path", path.has(node.id));
    node.element.setAttribute("tabindex", node.id === (focused || here) ? 0 : -1);
    return node.element;
  });
  byId("nodes").replaceChildren(...drawn);
  if (focused) nodes.get(focused)?.element.focus();
  byId("stage-note").textContent = [countOf(nodes.size, "entity", "entities"), current?.more ? T("{0} has more neighbours: the list has all", current.name) : ""].filter(Boolean).join(" · ");
};

const place = () => {
  byId("scene").setAttribute("transform", `translate(${canvas.clientWidth / 2 - view.x * view.k} ${canvas.clientHeight / 2 - view.y * view.k}) scale(${view.k})`);
};
const showAll = () => {
  if (!nodes.size) return;
  const box = bounds([...nodes.values()]), middle = nodes.get(here);
  const k = Math.min(1.4, canvas.clientWidth / (box.right - box.left), canvas.clientHeight / (box.bottom - box.top));
  view.k = Math.max(k, LEAST_SCALE);
  view.x = k < LEAST_SCALE && middle ? middle.x : (box.left + box.right) / 2;
  view.y = k < LEAST_SCALE && middle ? middle.y : (box.top + box.bottom) / 2;
  place();
};
const zoom = (factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) => {
  const k = Math.max(.15, Math.min(4, view.k * factor));
  view.x += (x - canvas.clientWidth / 2) * (1 / view.k - 1 / k);
  view.y += (y - canvas.clientHeight / 2) * (1 / view.k - 1 / k);
  view.k = k;
  place();
};

// -- an entity becomes the present one

const expand = async (id) => {
  const near = await getJson(`/entities/${encodeURIComponent(id)}/neighbours?limit=${neighbourLimit()}`);
  addEntities(near.entities);
  addRelations(near.relations);
  const node = nodes.get(near.entities[0].id);
  Object.assign(node, { open: true, more: near.more });
  return node;
};

// A path comes into view and is read out; so is an entity that a link of the panel opens.
const showPanel = async (address, seek) => {
  const fresh = await fetchPart(address, "#panel-content");
  byId("panel-content").replaceWith(fresh);
  if (byId("path")) byId("path").focus();
  else if (seek) {
    if (!canvas.contains(document.activeElement)) byId("entity-name")?.focus({ preventScroll: true });
    panel.scrollIntoView();
  }
};

// seek: whether to scroll to the panel. Below the drawing, it stays where it is for a click on the drawing.
// isShown: the page came with the panel; somebody may type in it already.
const go = async (id, { push = true, isShown = false, seek = !stacked.matches, address = `${prefix}/graph?entity=${encodeURIComponent(id)}` } = {}) => {
  here = id;
  try {
    const [node] = await Promise.all([expand(id), isShown || showPanel(address, seek)]);
    current = node;
    here = node.id;
    forget();
    seed([...nodes.values()], node.x === undefined ? null : node);
    settle([...nodes.values()], [...edges.values()]);
    paint();
    showAll();
    if (push) history.pushState(null, "", address);
    document.title = `${node.name} · Kumihimo`;
    announce(`${node.name}: ${T("{0} shown", countOf(nearOf(node.id).length, "neighbour"))}`);
  } catch (error) { announce(describe(error)); byId("stage-note").textContent = describe(error); }
};

const findPath = async (from, to, address) => {
  try {
    const found = await getJson(`/path?${new URLSearchParams({ from, to })}`);
    path = new Set(found.entities.map((entity) => entity.id));
    steps = new Set(found.relations.map((relation) => relation.id));
    addEntities(found.entities);
    addRelations(found.relations);
    await go(from, { address });
  } catch (error) {
    path = new Set();
    steps = new Set();
    if (nodes.size) paint();
    await showPanel(address).catch(() => showPathError(describe(error)));
  }
};
const showPathError = (text) => {
  byId("path")?.remove();
  panel.querySelector(".to-form").after(make("p", { className: "note alarm", id: "path", tabindex: -1 }, icon("warn"), make("span", {}, text)));
  byId("path").focus();
};

// -- pointer and keys

const bindPointer = () => {
  const pan = (dx, dy) => { view.x -= dx / view.k; view.y -= dy / view.k; place(); };
  const isClick = bindGestures(canvas, { pan, zoom });
  canvas.addEventListener("click", (event) => {
    const node = event.target.closest(".node");
    if (node && isClick()) go(node.dataset.id);
  });
};

// The nearest entity in the direction of an arrow.
const neighbourTowards = (node, dx, dy) => {
  let best = null, least = Infinity;
  for (const other of nodes.values()) {
    const x = other.x - node.x, y = other.y - node.y, along = x * dx + y * dy, aside = Math.abs(x * dy - y * dx);
    if (other === node || along <= 0 || aside > along * 1.5) continue;
    if (along + 2 * aside < least) { least = along + 2 * aside; best = other; }
  }
  return best;
};
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

const bindKeys = () => canvas.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const node = nodes.get(event.target.closest(".node")?.dataset.id) || nodes.get(here);
  const keys = { "+": () => zoom(1.3), "=": () => zoom(1.3), "-": () => zoom(1 / 1.3), 0: showAll };
  if (ARROWS[event.key] && node) {
    const other = event.target === canvas ? node : neighbourTowards(node, ...ARROWS[event.key]);
    if (other) { other.element.setAttribute("tabindex", 0); other.element.focus(); }
  } else if ((event.key === "Enter" || event.key === " ") && node) go(node.id);
  else if (keys[event.key]) keys[event.key]();
  else return;
  event.preventDefault();
});

// -- the page around the drawing

addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-entity]");
  if (!link || !stage || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  go(link.dataset.entity, { seek: true });
});
panel.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches(".to-form") || !stage) return;
  event.preventDefault();
  const { entity, to } = form.elements, address = `${prefix}/graph?${new URLSearchParams({ entity: entity.value, to: to.value })}`;
  findPath(entity.value, to.value, address);
});
// Names that begin so, while a person writes.
panel.addEventListener("input", async (event) => {
  const { name, value } = event.target;
  if (name !== "to" || value.trim().length < 2) return;
  const { entities } = await getJson(`/entities?${new URLSearchParams({ q: value, limit: 8 })}`).catch(() => ({ entities: [] })); // the search itself shows errors
  if (event.target.value === value) byId("to-names")?.replaceChildren(...entities.map(({ name }) => Object.assign(document.createElement("option"), { value: name })));
});
addEventListener("popstate", () => location.reload());

if (stage) {
  stage.hidden = false;
  bindPointer();
  bindKeys();
  byId("zoom-in").onclick = () => zoom(1.3);
  byId("zoom-out").onclick = () => zoom(1 / 1.3);
  byId("zoom-all").onclick = showAll;
  new ResizeObserver(showAll).observe(canvas);
  const wanted = new URLSearchParams(location.search), first = panel.dataset.entity || document.querySelector("a[data-entity]")?.dataset.entity;
  if (panel.dataset.entity && wanted.get("to")) findPath(panel.dataset.entity, wanted.get("to"), location.href);
  else if (panel.dataset.entity) go(first, { push: false, isShown: true });
  else if (first) { // the most frequent entity invites to begin
    here = first;
    expand(first).then((node) => { seed([...nodes.values()], node); settle([...nodes.values()], [...edges.values()]); current = node; paint(); showAll(); }, () => { stage.hidden = true; });
  }
}
