// pointer events on a drawing -> pan, zoom, and whether it was a click. The exported page holds this file, the server sends it.

// hover: receives the place of a pointer that touches nothing, or null. Returns whether the last press was a click.
export const bindGestures = (drawing, { pan, zoom, hover = () => {} }) => {
  const down = new Map();
  let travelled = 0, apart = 0;
  const at = (event) => { const box = drawing.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  const span = () => { const [a, b] = [...down.values()]; return Math.hypot(a[0] - b[0], a[1] - b[1]); };
  drawing.addEventListener("pointerdown", (event) => {
    down.set(event.pointerId, at(event));
    travelled = down.size > 1 ? Infinity : 0; // two fingers do not click
    if (down.size === 2) apart = span();
    hover(null);
  });
  drawing.addEventListener("pointermove", (event) => {
    const last = down.get(event.pointerId), now = at(event);
    if (!last) { hover(now); return; }
    const [dx, dy] = [now[0] - last[0], now[1] - last[1]];
    travelled += Math.hypot(dx, dy);
    if (down.size === 1 && travelled < 4) return;
    drawing.setPointerCapture(event.pointerId);
    drawing.classList.add("is-moving");
    down.set(event.pointerId, now);
    pan(dx / down.size, dy / down.size);
    if (down.size === 2) {
      const [a, b] = [...down.values()], wide = span();
      zoom(wide / (apart || wide), (a[0] + b[0]) / 2, (a[1] + b[1]) / 2);
      apart = wide;
    }
  });
  for (const name of ["pointerup", "pointercancel"]) {
    drawing.addEventListener(name, (event) => { down.delete(event.pointerId); drawing.classList.remove("is-moving"); });
  }
  drawing.addEventListener("pointerleave", () => hover(null));
  drawing.addEventListener("wheel", (event) => {
    event.preventDefault();
    const much = event.deltaY * [1, 30, 300][event.deltaMode] * (event.ctrlKey ? 5 : 1);
    zoom(Math.exp(-Math.max(-300, Math.min(300, much)) * .002), ...at(event));
  }, { passive: false });
  return () => travelled < 4;
};
