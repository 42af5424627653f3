// entities and relations -> places: springs along relations, a push between all, and names that do not overlap.
// The start is the same each time, and so is the drawing.

const LENGTH = 120, PUSH = 9000, PULL = .012, ROUNDS = 260, APART = 60;

// Place new nodes around the one that they belong to.
export const seed = (nodes, around) => {
  const fresh = nodes.filter((node) => node.x === undefined);
  fresh.forEach((node, n) => {
    const angle = n * 2.399963, radius = LENGTH * (.7 + .12 * Math.sqrt(n)); // a sunflower
    node.x = (around?.x || 0) + (around ? radius * Math.cos(angle) : 0);
    node.y = (around?.y || 0) + (around ? radius * Math.sin(angle) : 0);
  });
};

export const reach = (node) => 6 + Math.min(13, 2.4 * Math.sqrt(node.mentions));

// One round; heat: how far a node may go.
const step = (nodes, edges, heat) => {
  for (const node of nodes) { node.dx = -node.x * PULL; node.dy = -node.y * PULL; }
  for (let i = 0; i < nodes.length; i++) {
    for (let j = i + 1; j < nodes.length; j++) {
      const a = nodes[i], b = nodes[j];
      let dx = a.x - b.x, dy = a.y - b.y;
      // Names are wide: entities keep more distance sideways.
      const squared = Math.max(36, dx * dx * .55 + dy * dy * 1.35), force = PUSH / squared / Math.sqrt(squared);
      if (!dx && !dy) { dx = .5 + i; dy = .5 - j; }
      a.dx += dx * force; a.dy += dy * force;
      b.dx -= dx * force; b.dy -= dy * force;
    }
  }
  for (const { a, b, weight } of edges) {
    const dx = b.x - a.x, dy = b.y - a.y, distance = Math.hypot(dx, dy) || 1;
    const force = .06 * (distance - LENGTH - reach(a) - reach(b)) / distance * (1 + Math.min(1, Math.log1p(weight) / 4));
    a.dx += dx * force; a.dy += dy * force;
    b.dx -= dx * force; b.dy -= dy * force;
  }
  for (const node of nodes) {
    if (node.fixed) continue;
    const size = Math.hypot(node.dx, node.dy) || 1, by = Math.min(size, heat) / size;
    node.x += node.dx * by;
    node.y += node.dy * by;
  }
};

// The box of a node: its circle, and its name below.
const WIDE = /[\u1100-\uffef]/g;
export const halfWidth = (node) => {
  const letters = Math.min(node.name.length, MAX_NAME), wide = (node.name.slice(0, MAX_NAME).match(WIDE) || []).length;
  return Math.max(reach(node), (letters - wide) * 3.5 + wide * 6.7) + 5;
};
const overlap = (a, b) => {
  const x = a.half + b.half - Math.abs(a.x - b.x);
  const top = Math.max(a.y - a.r, b.y - b.r), bottom = Math.min(a.y + a.r + 20, b.y + b.r + 20);
  return [x, bottom - top + 4];
};
const separate = (nodes) => {
  let moved = false;
  for (let i = 0; i < nodes.length; i++) {
    for (let j = i + 1; j < nodes.length; j++) {
      const a = nodes[i], b = nodes[j], [x, y] = overlap(a, b);
      if (x <= 0 || y <= 0) continue;
      moved = true;
      const axis = x < y * 1.6 ? "x" : "y", by = (axis === "x" ? x : y) / 2 + .5, sign = a[axis] < b[axis] ? -1 : 1;
      a[axis] += sign * by;
      b[axis] -= sign * by;
    }
  }
  return moved;
};

export const MAX_NAME = 26; // characters on the drawing

export const settle = (nodes, edges) => {
  for (const node of nodes) { node.r = reach(node); node.half = halfWidth(node); }
  for (let round = 0; round < ROUNDS; round++) step(nodes, edges, 22 * (1 - round / ROUNDS) + .4);
  for (let round = 0; round < APART && separate(nodes); round++);
};

export const bounds = (nodes) => ({
  left: Math.min(...nodes.map((node) => node.x - node.half)) - 20,
  right: Math.max(...nodes.map((node) => node.x + node.half)) + 20,
  top: Math.min(...nodes.map((node) => node.y - node.r)) - 20,
  bottom: Math.max(...nodes.map((node) => node.y + node.r)) + 50,
});
