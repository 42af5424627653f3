// the tree of reports -> parts that are fetched when a person opens them
import { describe, announce, figure, getJson, make, prefix, T, textLanguage } from "./lib.js";

const tree = document.getElementById("tree");

const rowOf = (row, depth) => {
  const title = row.title ? make("a", { href: `${prefix}/reports/${row.id}`, lang: textLanguage(row.title) }, row.title) : make("span", { className: "soft" }, T("(no report yet)"));
  const item = make("li", { className: `branch depth-${Math.min(depth, 6)}`, "data-id": row.id, "data-depth": depth, "data-children": row.children || null },
    make("span", { className: "twist" }), title, make("span", { className: "soft small figure" }, figure.format(row.entities)));
  addButton(item);
  return item;
};

const belowOf = (item) => {
  const below = [], depth = Number(item.dataset.depth);
  for (let next = item.nextElementSibling; next && Number(next.dataset.depth ?? Infinity) > depth; next = next.nextElementSibling) below.push(next);
  return below;
};

const setOpen = (item, button, open) => {
  item.toggleAttribute("data-open", open);
  button.setAttribute("aria-expanded", String(open));
  button.textContent = open ? "▾" : "▸";
};

const open = async (item, button) => {
  const depth = Number(item.dataset.depth) + 1, last = [];
  let after = "";
  setOpen(item, button, true);
  try {
    do {
      const page = await getJson(`/communities?${new URLSearchParams({ parent: item.dataset.id, after, limit: 100 })}`);
      last.push(...page.communities.filter((row) => row.title || row.entities > 1).map((row) => rowOf(row, depth)));
      after = page.next;
    } while (after && last.length < 500);
    item.after(...last);
  } catch (error) {
    setOpen(item, button, false);
    announce(describe(error));
  }
};

const addButton = (item) => {
  if (!item.dataset.children) return;
  const button = make("button", { type: "button", className: "twist", "aria-label": T("Parts of {0}", item.querySelector("a")?.textContent || T("(no report yet)")) });
  item.querySelector(".twist").replaceWith(button);
  setOpen(item, button, item.hasAttribute("data-open"));
  button.addEventListener("click", () => {
    if (!item.hasAttribute("data-open")) { open(item, button); return; }
    belowOf(item).forEach((row) => row.remove());
    setOpen(item, button, false);
  });
};

tree?.querySelectorAll(".branch").forEach(addButton);
// A narrow window shows the report first; a wide one scrolls the tree, not the page.
const current = tree?.querySelector("[aria-current]"), side = tree?.closest(".tree");
if (matchMedia("(max-width: 64rem)").matches) tree?.closest("details")?.removeAttribute("open");
else if (current && side) side.scrollTop += current.getBoundingClientRect().top - side.getBoundingClientRect().top - side.clientHeight / 2;
