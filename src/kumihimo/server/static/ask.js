// a question -> its answer as it arrives, in a conversation that this browser keeps
import { announce, byId, countOf, describe, icon, make, readEvents, sendJson, T } from "./lib.js";
import * as conversations from "./conversations.js";
import "./reader.js";
import { showRail } from "./rail.js";
import { toMarkdown, Turn } from "./turn.js";

const form = byId("composer"), talk = byId("talk"), turns = byId("turns");
let conversation = conversations.create(), running = null;

const field = (name) => form.elements[name]?.value || "";

const setBusy = (busy) => {
  byId("send").hidden = busy;
  byId("stop").hidden = !busy;
};

const begin = () => {
  talk.classList.remove("is-empty");
  for (const id of ["welcome", "hints"]) byId(id)?.remove();
};

// -- the tools below an answer

const copy = async (button, text) => {
  await navigator.clipboard.writeText(text);
  button.lastChild.textContent = T("Copied");
  announce(T("Copied"));
};
const tool = (name, label, act) => make("button", { type: "button", className: "button quiet", onclick: (event) => act(event.currentTarget) }, icon(name), label);
const toolsFor = (answer) => [
  navigator.clipboard ? tool("copy", T("Copy"), (button) => copy(button, toMarkdown({ answer }))) : "", // none on plain HTTP
  tool("again", T("Ask again"), () => ask(answer.question)),
];

// -- asking

const receive = {
  progress: (turn, data) => turn.say(data.model ? T("Asking {0}", data.model) : data.step === "search" ? T("Searching the documents") : data.text),
  evidence: (turn, data) => {
    turn.showEvidence(data);
    turn.say(T("Found {0}", countOf(data.evidence.length, "passage")));
  },
  token: (turn, data) => {
    if (!turn.text) turn.say(T("Writing the answer"));
    turn.addToken(data.text);
  },
  answer: (turn, data) => {
    turn.showAnswer(data, toolsFor(data));
    conversation = conversations.add(conversation, data);
    announce(T("The answer is there."));
  },
  error: (turn, data) => { throw new Error(data.detail); },
};

const again = (question) => make("button", { type: "button", className: "button", onclick: () => ask(question) }, T("Ask again"));

const ask = async (question) => {
  if (running || !question.trim()) return;
  begin();
  const turn = new Turn(question.trim()), controller = new AbortController();
  turns.append(turn.element);
  if (turns.children.length > 1) turn.element.scrollIntoView({ block: "start", behavior: "smooth" });
  turn.say(T("Searching the documents"));
  form.elements.question.value = "";
  running = controller;
  setBusy(true);
  const body = { question: turn.question, method: field("method"), filter: field("filter"), history: conversations.historyOf(conversation), stream: true };
  if (field("length")) body.length = field("length");
  try {
    const response = await sendJson("/ask", body, { signal: controller.signal });
    for await (const event of readEvents(response)) receive[event.name]?.(turn, event.data);
    if (!turn.answer) throw new Error(T("The connection broke off before the answer: ask again."));
    history.replaceState(null, "", `#${conversation.id}`);
    showRail(conversation.id);
  } catch (error) {
    if (controller.signal.aborted) turn.showProblem(T("Stopped."), again(turn.question));
    else turn.showProblem(describe(error), again(turn.question));
  } finally {
    running = null;
    setBusy(false);
    form.elements.question.focus({ preventScroll: true });
  }
};

// -- conversations

const show = (id) => {
  running?.abort();
  const kept = conversations.find(id);
  conversation = kept || conversations.create();
  if (kept) begin();
  turns.replaceChildren(...(kept?.turns || []).map(({ answer }) => {
    const turn = new Turn(answer.question);
    turn.showAnswer(answer, toolsFor(answer));
    return turn.element;
  }));
  showRail(conversation.id);
};

if (form) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask(event.submitter?.name === "hint" ? event.submitter.value : field("question"));
  });
  form.elements.question.addEventListener("keydown", (event) => {
    // Enter ends the choice of kanji first.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    form.requestSubmit();
  });
  byId("stop").addEventListener("click", () => running?.abort());
  addEventListener("keydown", (event) => { if (event.key === "Escape" && !event.defaultPrevented && running && !byId("reader").open) running.abort(); });
  turns.addEventListener("click", (event) => { if (event.target.matches(".hint")) ask(event.target.value); });
  addEventListener("hashchange", () => { if (location.hash.length > 1) show(location.hash.slice(1)); });
  if (location.hash.length > 1) show(location.hash.slice(1));
  else showRail("");
}
