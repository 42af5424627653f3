// every page: its menus, and the language and colours that a person chooses
import { byId, csrf, owner, T } from "./lib.js";

const root = document.documentElement;

// A menu closes with Escape, and when something else is chosen.
addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && document.querySelector(".menu[open]");
  if (!menu) return;
  event.preventDefault(); // it closes nothing else
  menu.open = false;
  menu.querySelector("summary").focus();
});
addEventListener("pointerdown", (event) => {
  for (const menu of document.querySelectorAll(".menu[open]")) if (!menu.contains(event.target)) menu.open = false;
});

const look = byId("look");
look.addEventListener("change", async (event) => {
  const form = new FormData(look);
  if (event.target.name === "language") { look.requestSubmit(); return; }
  if (form.get("theme")) root.dataset.theme = form.get("theme");
  else delete root.dataset.theme;
  await fetch(look.action, { method: "POST", body: new URLSearchParams(form), headers: { "X-CSRF-Token": csrf }, redirect: "manual" });
});

// The conversations of a key do not outlive its session.
byId("logout")?.addEventListener("submit", () => {
  for (const name of Object.keys(localStorage)) if (name.startsWith(`kumihimo:${owner}:`)) localStorage.removeItem(name);
});

// A region that scrolls sideways needs the keyboard only if it does.
for (const region of document.querySelectorAll(".wide[tabindex]")) {
  if (region.scrollWidth <= region.clientWidth) region.removeAttribute("tabindex");
}

// A failed request of a script that nobody waits for is said aloud.
addEventListener("unhandledrejection", (event) => {
  if (event.reason?.name !== "AbortError") byId("live").textContent = T("Something went wrong: reload the page.");
});
