// the conversations that are kept -> a list to open, rename, export and delete them
import * as conversations from "./conversations.js";
import { byId, icon, make, prefix, T } from "./lib.js";
import { toMarkdown } from "./turn.js";

const rail = byId("rail"), dialog = byId("conversation-dialog");

const save = (name, type, text) => {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
};
const fileName = (conversation, suffix) => `${conversation.title.replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60) || "conversation"}.${suffix}`;
const exportMarkdown = (conversation) => save(fileName(conversation, "md"), "text/markdown", `# ${conversation.title}\n\n${conversation.turns.map(toMarkdown).join("\n")}`);
const exportJson = (conversation) => save(fileName(conversation, "json"), "application/json", JSON.stringify(conversation, null, 2));

// Ask for a new name, or whether to delete; return what the dialog was closed with.
const askPerson = (...inside) => new Promise((resolve) => {
  dialog.replaceChildren(make("form", { method: "dialog" }, ...inside));
  dialog.returnValue = "";
  dialog.addEventListener("close", () => resolve(dialog.returnValue), { once: true });
  dialog.showModal();
});

const rename = async (conversation, current) => {
  const input = make("input", { value: conversation.title, maxlength: 80, required: true });
  const answer = await askPerson(make("label", { className: "field" }, T("Name of the conversation"), input),
    make("div", { className: "actions" }, make("button", { type: "button", className: "button", onclick: () => dialog.close() }, T("Cancel")), make("button", { className: "button main", value: "ok" }, T("Rename"))));
  if (answer === "ok") conversations.rename(conversation.id, input.value);
  showRail(current);
};

const remove = async (conversation, current) => {
  const answer = await askPerson(make("h2", {}, T("Delete this conversation?")), make("p", {}, conversation.title),
    make("div", { className: "actions" }, make("button", { className: "button", value: "" }, T("Keep it")), make("button", { className: "button danger", value: "ok" }, T("Delete"))));
  if (answer !== "ok") return;
  conversations.remove(conversation.id);
  if (conversation.id === current) location.assign(`${prefix}/`);
  else showRail(current);
};

const menu = (conversation, current) => {
  const entry = (label, act, danger = "") => make("button", { type: "button", className: `button quiet ${danger}`, onclick: () => { details.open = false; act(conversation, current); } }, label);
  const details = make("details", { className: "menu", name: "menu" },
    make("summary", { className: "button quiet square", "aria-label": T("More: {0}", conversation.title) }, icon("more")),
    make("div", { className: "panel" }, make("div", { className: "links" },
      entry(T("Rename"), rename), entry(T("Export as Markdown"), exportMarkdown), entry(T("Export as JSON"), exportJson), entry(T("Delete"), remove, "danger"))));
  return details;
};

export const showRail = (current) => {
  const kept = conversations.list();
  rail.hidden = byId("rail-button").hidden = !kept.length;
  rail.replaceChildren(
    make("a", { className: "button", href: `${prefix}/`, id: "new-conversation", onclick: (event) => { if (location.hash) return; event.preventDefault(); location.reload(); } }, icon("plus"), T("New question")),
    make("h2", { className: "small soft" }, T("Conversations")),
    make("ul", { className: "plain" }, kept.map((conversation) => make("li", { className: conversation.id === current ? "is-current" : "" },
      make("a", { href: `#${conversation.id}`, "aria-current": conversation.id === current ? "true" : null }, conversation.title), menu(conversation, current)))),
    make("p", { className: "small soft" }, T("Kept in this browser only.")),
  );
};
