// the conversations of one key over one index, kept in this browser
import { index, owner } from "./lib.js";

const KEY = `kumihimo:${owner}:${index}`;
const MAX_CONVERSATIONS = 200, MAX_QUOTE = 2000, MAX_TITLE = 80;

const read = () => {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) || "[]");
    return Array.isArray(kept) ? kept : [];
  } catch { return []; }
};

// Without room, the oldest conversations go first.
const write = (conversations) => {
  for (let kept = conversations.slice(0, MAX_CONVERSATIONS); ; kept = kept.slice(0, Math.ceil(kept.length / 2))) {
    try {
      localStorage.setItem(KEY, JSON.stringify(kept));
      return;
    } catch (error) { if (error.name !== "QuotaExceededError" || kept.length < 2) return; }
  }
};

// Leave out what a browser has no room for: the whole texts of the evidence.
const trim = (answer) => ({
  ...answer,
  citations: answer.citations.map((citation) => ({ ...citation, text: citation.text.slice(0, MAX_QUOTE) })),
  evidence: answer.evidence.map(({ text, feature_scores: _, metadata: __, ...item }) => ({ ...item, snippet: item.snippet || (text || "").slice(0, 300), spans: (item.spans || []).slice(0, 3) })),
});

export const list = () => read().sort((a, b) => b.changed - a.changed);
// Version 0.2 kept answers without parts; their text says what the status does.
const withParts = ({ answer }) => ({ answer: answer.parts ? answer : { ...answer, status: "answered", parts: [{ kind: "sentence", text: answer.text, citations: [], markers: [] }] } });
export const find = (id) => read().filter((each) => each.id === id).map((each) => ({ ...each, turns: each.turns.map(withParts) }))[0];
export const create = () => ({ id: crypto.randomUUID?.() || `${Date.now()}-${Math.random()}`, title: "", changed: Date.now(), turns: [] });

export const keep = (conversation) => write([conversation, ...read().filter((each) => each.id !== conversation.id)]);
export const remove = (id) => write(read().filter((each) => each.id !== id));
export const removeAll = () => localStorage.removeItem(KEY);

export const rename = (id, title) => {
  const conversation = find(id);
  if (conversation && title.trim()) keep({ ...conversation, title: title.trim().slice(0, MAX_TITLE) });
};

export const add = (conversation, answer) => {
  const title = conversation.title || answer.question.slice(0, MAX_TITLE);
  const next = { ...conversation, title, changed: Date.now(), turns: [...conversation.turns, { answer: trim(answer) }] };
  keep(next);
  return next;
};

// What the server needs of the turns so far.
export const historyOf = (conversation) => conversation.turns.slice(-10).map(({ answer }) => ({ question: answer.question, answer: answer.text }));
