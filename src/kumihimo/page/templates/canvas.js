// page data -> the graph on a canvas: nested circles, with names where there is room
"use strict";

const DATA = JSON.parse(document.getElementById("data").textContent);
const NODES = DATA.nodes.map(([name, type, x, y, r, mentions, text, forms, sources, id]) =>
  ({ name, type, x, y, r, mentions, text, forms, sources, id, edges: [], leaf: -1, width: 0 }));
const EDGES = DATA.edges.map(([a, b, weight, text, keywords]) => ({ a, b, weight, text, keywords }));
const CIRCLES = DATA.communities.map(([level, parent, x, y, r, size, members, id], n) =>
  ({ n, level, parent, x, y, r, size, members, id, children: [], report: DATA.reports[n], title: "" }));
EDGES.forEach((edge, n) => { NODES[edge.a].edges.push(n); if (edge.b !== edge.a) NODES[edge.b].edges.push(n); });
CIRCLES.forEach((circle, n) => {
  if (circle.parent >= 0) CIRCLES[circle.parent].children.push(n);
  for (const member of circle.members) NODES[member].leaf = n;
});
const ROOTS = CIRCLES.filter((circle) => circle.parent < 0).map((circle) => circle.n);
const LOOSE = NODES.map((_, n) => n).filter((n) => NODES[n].leaf < 0);
const bySize = (a, b) => CIRCLES[b].size - CIRCLES[a].size || a - b;
ROOTS.sort(bySize);
CIRCLES.forEach((circle) => circle.children.sort(bySize));

// Return the most connected members. Nodes are ordered by degree.
const topMembers = (circle, limit) => {
  const members = [];
  const walk = (c) => { members.push(...c.members); c.children.forEach((n) => walk(CIRCLES[n])); };
  walk(circle);
  return members.sort((a, b) => a - b).slice(0, limit);
};
CIRCLES.forEach((circle) => {
  circle.title = circle.report ? circle.report[0] : topMembers(circle, 3).map((n) => NODES[n].name).join(", ");
});

const KINDS = 8; // types with their own colour and shape; the last one is for all others
const kindOf = (type) => (DATA.types[type] === "" ? KINDS - 1 : Math.min(type, KINDS - 1));
// Corners of each shape, relative to the radius; null: a circle.
const SHAPES = [
  null, [[-.9, -.9], [.9, -.9], [.9, .9], [-.9, .9]], [[0, -1.2], [1.1, .8], [-1.1, .8]],
  [[0, -1.2], [1.2, 0], [0, 1.2], [-1.2, 0]], [[0, 1.2], [1.1, -.8], [-1.1, -.8]],
  [[-.5, -1], [.5, -1], [1, 0], [.5, 1], [-.5, 1], [-1, 0]], [[-1.2, -.6], [1.2, -.6], [1.2, .6], [-1.2, .6]],
  [[-.4, -1.1], [.4, -1.1], [.4, -.4], [1.1, -.4], [1.1, .4], [.4, .4], [.4, 1.1], [-.4, 1.1], [-.4, .4], [-1.1, .4], [-1.1, -.4], [-.4, -.4]],
];

const graph = (() => {
  const canvas = document.getElementById("canvas");
  const pen = canvas.getContext("2d");
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  let width = 0, height = 0, dots = 1, colours = {}, frame = 0, flight = null, focused = false;
  const view = { x: 0, y: 0, k: 1 }; // centre in graph units, and pixels per unit
  const picked = { node: -1, circle: -1, edge: -1 }, hover = { node: -1, circle: -1 };
  const seen = new Uint8Array(NODES.length); // drawn size of each node: 0 hidden, 1 small, 2 large enough for edges
  const FONT = '12px system-ui, -apple-system, "Segoe UI", "Noto Sans", sans-serif';
  let times = [];

  const readColours = () => {
    const style = getComputedStyle(document.documentElement);
    const cssVariable = (name) => style.getPropertyValue(`--${name}`).trim();
    colours = { ink: cssVariable("ink"), soft: cssVariable("soft"), halo: cssVariable("paper"), accent: cssVariable("alarm"), link: cssVariable("link"),
      disc: cssVariable("disc"), edge: cssVariable("edge"), kinds: Array.from({ length: KINDS }, (_, n) => cssVariable(`t${n}`)) };
  };
  const X = (x) => (x - view.x) * view.k + width / 2;
  const Y = (y) => (y - view.y) * view.k + height / 2;
  const outside = (x, y, r) => x + r < 0 || y + r < 0 || x - r > width || y - r > height;
  const smallest = () => 0.8 * fitting(DATA.radius);
  const fitting = (r) => Math.min(width, height) / 2 / Math.max(r, 1) * 0.96;

  // Return circles by level and nodes in sight. Circles that are too small are drawn as one disc.
  const findVisible = () => {
    const circles = [], nodes = [];
    const node = (n) => {
      const { x, y, r } = NODES[n], size = r * view.k;
      if (size < 0.35 || outside(X(x), Y(y), size)) return;
      seen[n] = size >= 2.2 ? 2 : 1;
      nodes.push(n);
    };
    const walk = (n) => {
      const circle = CIRCLES[n], size = circle.r * view.k;
      if (size < 0.7 || outside(X(circle.x), Y(circle.y), size)) return;
      circles.push(circle);
      if (size < 3) return;
      circle.children.forEach(walk);
      circle.members.forEach(node);
    };
    seen.fill(0);
    ROOTS.forEach(walk);
    LOOSE.forEach(node);
    return { circles, nodes: nodes.sort((a, b) => a - b) };
  };

  const drawDiscs = (circles) => {
    const levels = [];
    for (const circle of circles) (levels[circle.level] ||= []).push(circle);
    for (const level of levels.filter(Boolean)) {
      pen.beginPath();
      for (const { x, y, r } of level) { pen.moveTo(X(x) + r * view.k, Y(y)); pen.arc(X(x), Y(y), r * view.k, 0, 7); }
      pen.fillStyle = `rgba(${colours.disc}, 0.05)`;
      pen.fill();
      pen.strokeStyle = `rgba(${colours.disc}, 0.22)`;
      pen.lineWidth = 0.8;
      pen.stroke();
    }
  };

  const drawLines = (numbers, colour, thick) => {
    pen.beginPath();
    for (const n of numbers) {
      const a = NODES[EDGES[n].a], b = NODES[EDGES[n].b];
      pen.moveTo(X(a.x), Y(a.y));
      pen.lineTo(X(b.x), Y(b.y));
    }
    pen.strokeStyle = colour;
    pen.lineWidth = thick;
    pen.stroke();
  };

  // Return up to 500 edges between large nodes. Edges of the largest nodes come first.
  const visibleEdges = () => {
    const numbers = [];
    for (let n = 0; n < EDGES.length && numbers.length < 500; n++) {
      if (seen[EDGES[n].a] === 2 && seen[EDGES[n].b] === 2) numbers.push(n);
    }
    return numbers;
  };

  const shape = (kind, x, y, r) => {
    const corners = SHAPES[kind];
    if (!corners) { pen.moveTo(x + r, y); pen.arc(x, y, r, 0, 7); return; }
    corners.forEach(([dx, dy], i) => (i ? pen.lineTo(x + dx * r, y + dy * r) : pen.moveTo(x + dx * r, y + dy * r)));
    pen.closePath();
  };

  const drawNodes = (nodes) => {
    const kinds = Array.from({ length: KINDS }, () => []);
    for (const n of nodes) kinds[kindOf(NODES[n].type)].push(n);
    kinds.forEach((ones, kind) => {
      if (!ones.length) return;
      pen.fillStyle = colours.kinds[kind];
      pen.beginPath();
      for (const n of ones) {
        const { x, y, r } = NODES[n], size = r * view.k;
        if (size < 2) pen.rect(X(x) - size, Y(y) - size, 2 * size, 2 * size);
        else shape(kind, X(x), Y(y), size);
      }
      pen.fill();
    });
  };

  // Draw names without overlap: earlier names keep their place.
  const drawNames = (circles, nodes) => {
    const boxes = [];
    const free = (box) => boxes.every((t) => box[0] > t[2] || box[2] < t[0] || box[1] > t[3] || box[3] < t[1]);
    const put = (rows, x, y, wide, colour, weight, forced) => {
      const box = [x - wide / 2 - 3, y - 8, x + wide / 2 + 3, y - 8 + 15 * rows.length];
      if ((!forced && !free(box)) || outside(x, y, wide / 2)) return false;
      boxes.push(box);
      pen.font = `${weight} ${FONT}`;
      pen.fillStyle = colour;
      rows.forEach((row, i) => { pen.strokeText(row, x, y + 15 * i); pen.fillText(row, x, y + 15 * i); });
      return true;
    };
    const name = (n, forced) => {
      const node = NODES[n];
      node.label ||= node.name.length > 40 ? `${node.name.slice(0, 39)}…` : node.name;
      if (!node.width) { pen.font = FONT; node.width = pen.measureText(node.label).width; }
      const bold = n === picked.node ? 650 : 400;
      return put([node.label], X(node.x), Y(node.y) + node.r * view.k + 9, node.width, colours.ink, bold, forced);
    };
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.lineJoin = "round";
    pen.strokeStyle = colours.halo;
    pen.lineWidth = 3;
    if (picked.node >= 0) name(picked.node, true);
    if (hover.node >= 0 && hover.node !== picked.node) name(hover.node, true);
    neighbours(picked.node, 20).forEach((n) => name(n, false));
    let tries = 500, left = Math.min(90, (width * height) / 9000);
    const large = circles.filter((c) => c.size > 1 && c.r * view.k > 34 && c.r * view.k < Math.max(width, height) * 0.45);
    for (const circle of large.sort((a, b) => b.r - a.r || a.n - b.n)) {
      const size = circle.r * view.k, inner = size > 110 || view.k > 0.8; // above its members, once they are distinguishable
      const { rows, wide } = wrapTitle(circle, size * (inner ? 1.5 : 1.7), inner ? 1 : 2);
      const y = inner ? Y(circle.y) - size + 12 : Y(circle.y) - 7.5 * (rows.length - 1);
      if (rows.length && tries-- > 0 && left > 0 && put(rows, X(circle.x), y, wide, colours.ink, 600, false)) left--;
    }
    for (const n of nodes) {
      if (tries-- <= 0 || left <= 0 || NODES[n].r * view.k < 3.2) break;
      if (name(n, false)) left--;
    }
  };

  // Wrap a title to a width and a number of rows. It is measured again only if the number of letters changes.
  const wrapTitle = (circle, maxWidth, rows) => {
    pen.font = `600 ${FONT}`;
    circle.full ||= pen.measureText(circle.title).width;
    const letters = Math.floor(circle.title.length * maxWidth / circle.full), key = letters * 4 + rows;
    if (letters < 5) return { rows: [], wide: 0 };
    if (circle.key !== key) {
      const lines = [];
      let rest = circle.title;
      while (rest && lines.length < rows) {
        const space = rest.lastIndexOf(" ", letters), unspaced = rest.charCodeAt(letters) > 0x2e7f;
        const last = lines.length === rows - 1 || (space < 1 && !unspaced); // words are not broken over two rows
        const end = rest.length <= letters ? rest.length : last ? letters - 1 : unspaced ? letters : space;
        lines.push(end < rest.length && last ? `${rest.slice(0, end).trimEnd()}…` : rest.slice(0, end));
        rest = last ? "" : rest.slice(end).trimStart();
      }
      circle.key = key;
      circle.label = { rows: lines, wide: Math.max(...lines.map((row) => pen.measureText(row).width)) };
    }
    return circle.label;
  };

  const neighbours = (n, limit) => {
    if (n < 0) return [];
    const others = NODES[n].edges.map((e) => (EDGES[e].a === n ? EDGES[e].b : EDGES[e].a));
    return [...new Set(others)].sort((a, b) => a - b).slice(0, limit);
  };

  const drawRing = (item, colour, thick, gap) => {
    pen.beginPath();
    pen.arc(X(item.x), Y(item.y), item.r * view.k + gap, 0, 7);
    pen.strokeStyle = colour;
    pen.lineWidth = thick;
    pen.stroke();
  };

  const drawPicked = () => {
    if (hover.circle >= 0) drawRing(CIRCLES[hover.circle], colours.link, 1.5, 0);
    if (picked.circle >= 0) drawRing(CIRCLES[picked.circle], colours.accent, 2.5, 0);
    if (hover.node >= 0) drawRing(NODES[hover.node], colours.link, 2, 2);
    if (picked.node >= 0) drawRing(NODES[picked.node], colours.accent, 3, 3);
  };

  const draw = () => {
    frame = 0;
    const began = performance.now();
    if (flight) animate(began);
    pen.setTransform(dots, 0, 0, dots, 0, 0);
    pen.clearRect(0, 0, width, height);
    const { circles, nodes } = findVisible();
    drawDiscs(circles);
    drawLines(visibleEdges(), `rgba(${colours.edge}, 0.13)`, 1);
    drawNodes(nodes);
    if (picked.edge >= 0) drawLines([picked.edge], colours.accent, 2.5);
    if (picked.node >= 0) {
      const own = NODES[picked.node].edges.slice(0, 2000);
      pen.globalAlpha = Math.max(0.12, Math.min(0.9, 40 / own.length));
      drawLines(own, colours.accent, own.length > 60 ? 0.8 : 1.1);
      pen.globalAlpha = 1;
      drawNodes([...neighbours(picked.node, 2000), picked.node].filter((n) => NODES[n].r * view.k > 0.35));
    }
    drawPicked();
    drawNames(circles, nodes);
    if (focused) drawCross();
    times.push(performance.now() - began);
    if (times.length > 600) times = times.slice(-300);
    if (flight) redraw();
  };

  const drawCross = () => {
    pen.beginPath();
    pen.moveTo(width / 2 - 7, height / 2); pen.lineTo(width / 2 + 7, height / 2);
    pen.moveTo(width / 2, height / 2 - 7); pen.lineTo(width / 2, height / 2 + 7);
    pen.strokeStyle = colours.link;
    pen.lineWidth = 1.5;
    pen.stroke();
  };

  const redraw = () => { frame ||= requestAnimationFrame(draw); };

  // -- moving

  const animate = (now) => {
    const part = Math.min(1, (now - flight.began) / 350), eased = 1 - (1 - part) ** 3;
    const { from, to } = flight;
    view.k = Math.exp(Math.log(from.k) + (Math.log(to.k) - Math.log(from.k)) * eased);
    view.x = from.x + (to.x - from.x) * eased;
    view.y = from.y + (to.y - from.y) * eased;
    if (part === 1) flight = null;
  };
  const flyTo = (x, y, k) => {
    const to = { x, y, k: bounded(k) };
    if (still.matches) Object.assign(view, to);
    else flight = { began: performance.now(), from: { ...view }, to };
    redraw();
  };
  const bounded = (k) => Math.max(smallest(), Math.min(k, Math.max(12, smallest())));
  const pan = (dx, dy) => {
    flight = null;
    const reach = DATA.radius * 1.1;
    view.x = Math.max(-reach, Math.min(reach, view.x - dx / view.k));
    view.y = Math.max(-reach, Math.min(reach, view.y - dy / view.k));
    redraw();
  };
  const zoom = (factor, x = width / 2, y = height / 2) => {
    flight = null;
    const k = bounded(view.k * factor), dx = x - width / 2, dy = y - height / 2;
    view.x += dx / view.k - dx / k;
    view.y += dy / view.k - dy / k;
    view.k = k;
    redraw();
  };
  const all = () => flyTo(0, 0, fitting(DATA.radius));
  const toNode = (n) => {
    const { x, y, r, leaf } = NODES[n];
    const k = Math.min(16 / r, leaf < 0 ? Infinity : fitting(CIRCLES[leaf].r * 1.6));
    flyTo(x, y, Math.max(k, Math.min(view.k, 40 / r)));
  };
  const toCircle = (n) => flyTo(CIRCLES[n].x, CIRCLES[n].y, fitting(CIRCLES[n].r * 1.25));

  // Return the node at a point, else the innermost circle of sufficient size.
  const at = (px, py) => {
    const x = (px - width / 2) / view.k + view.x, y = (py - height / 2) / view.k + view.y;
    const inside = (item, slack) => Math.hypot(item.x - x, item.y - y) <= item.r + slack;
    let circle = -1, inner = -1, next = ROOTS;
    for (;;) {
      const hit = next.find((n) => inside(CIRCLES[n], 0));
      if (hit === undefined) break;
      inner = hit;
      if (circle < 0 || CIRCLES[hit].r * view.k > 26) circle = hit;
      next = CIRCLES[hit].children;
    }
    const nodes = inner < 0 ? LOOSE : CIRCLES[inner].members;
    const node = nodes.find((n) => seen[n] && NODES[n].r * view.k > 1.5 && inside(NODES[n], 3 / view.k));
    return node === undefined ? { node: -1, circle } : { node, circle: -1 };
  };

  const resize = () => {
    const first = !width, before = { width, height };
    width = canvas.clientWidth;
    height = canvas.clientHeight;
    dots = Math.min(devicePixelRatio || 1, 2);
    canvas.width = Math.round(width * dots);
    canvas.height = Math.round(height * dots);
    if (first) Object.assign(view, { x: 0, y: 0, k: fitting(DATA.radius) });
    else if (before.height) view.k = bounded(view.k * Math.min(width, height) / Math.min(before.width, before.height));
    draw();
  };

  readColours();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); redraw(); });
  new ResizeObserver(resize).observe(canvas);
  resize();
  return {
    canvas, picked, hover, at, pan, zoom, all, toNode, toCircle, redraw, neighbours,
    get times() { return times; },
    set focused(on) { focused = on; redraw(); },
    get middle() { return [width / 2, height / 2]; },
  };
})();
