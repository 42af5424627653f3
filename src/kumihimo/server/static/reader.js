// a link to a passage -> the document beside the page, with the passage marked and in view
import { byId, describe, fetchPart, icon, make, T, withCode } from "./lib.js";

const dialog = byId("reader");
const beside = matchMedia("(min-width: 75rem)");
let opener = null, pending = null;

const close = () => { dialog.close(); };

dialog.addEventListener("close", () => {
  if (dialog.open) return; // it was opened in another form
  pending?.abort();
  opener?.setAttribute("aria-expanded", "false");
  opener?.focus();
  opener = null;
});
// Escape ends the choice of kanji first, or closes what is above the passage.
addEventListener("keydown", (event) => {
  const isTaken = event.defaultPrevented || event.isComposing || event.keyCode === 229 || document.querySelector(".menu[open], dialog:modal, :popover-open");
  if (event.key !== "Escape" || !dialog.open || isTaken) return;
  event.preventDefault(); // an answer that is being written goes on
  close();
});
dialog.addEventListener("click", (event) => { if (event.target === dialog && dialog.matches(":modal")) close(); });

// The passages of the same answer, in order.
const neighbours = (link) => {
  const links = [...(link.closest(".turn")?.querySelectorAll("a[data-passage]") || [])].filter((each) => each.offsetParent);
  return links.filter((each, n) => links.findIndex((other) => other.href === each.href) === n);
};

const step = (link, by) => {
  const links = neighbours(link), at = links.findIndex((each) => each.href === link.href);
  return links[at + by];
};

const head = (link) => {
  const button = (label, name, target) => make("button", { type: "button", className: "button quiet square", "aria-label": label, title: label, disabled: !target, onclick: () => target && open(target) }, icon(name));
  return make("header", {},
    make("div", { className: "row ends" },
      make("div", { className: "row steps" }, button(T("Previous passage"), "back", step(link, -1)), button(T("Next passage"), "next", step(link, 1))),
      make("button", { type: "button", className: "button quiet square", "aria-label": T("Close"), title: T("Close"), onclick: close }, icon("close"))),
    make("h2", { id: "reader-title", tabindex: -1 }, link.dataset.title),
    make("p", { className: "small soft" }, link.dataset.place),
    make("p", { className: "small" }, make("a", { href: link.href }, T("Open the document"))));
};

export const open = async (link) => {
  pending?.abort();
  pending = new AbortController();
  const body = make("div", { className: "reader-text", tabindex: 0, role: "region", "aria-label": T("The passage in its document") }, make("p", { className: "state" }, make("span", { className: "pulse" }), T("Opening the document")));
  opener?.setAttribute("aria-expanded", "false");
  opener = link;
  if (link.classList.contains("cite")) link.setAttribute("aria-expanded", "true");
  dialog.replaceChildren(head(link), body);
  if (!dialog.open) (beside.matches ? dialog.show() : dialog.showModal());
  byId("reader-title").focus();
  try {
    const part = await fetchPart(link.href, "article.text", { signal: pending.signal });
    part.querySelector("header")?.remove();
    body.lang = part.lang;
    body.replaceChildren(...part.childNodes);
    const mark = body.querySelector("mark");
    if (mark) body.scrollTop += mark.getBoundingClientRect().top - body.getBoundingClientRect().top - body.clientHeight / 3;
    body.dataset.ready = "";
  } catch (error) {
    if (error.name !== "AbortError") body.replaceChildren(make("p", { className: "note alarm" }, icon("warn"), make("span", {}, withCode(describe(error)))));
  }
};

// A window that becomes narrow has no room for the passage beside the answer.
beside.addEventListener("change", () => {
  const link = opener;
  if (!dialog.open) return;
  dialog.close();
  open(link);
});

// A plain click opens the passage here; with a modifier the browser opens the document as always.
addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-passage]");
  if (!link || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  open(link);
});
