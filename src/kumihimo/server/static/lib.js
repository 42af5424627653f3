// what every script of the page uses: texts, elements, requests, events of the server
import labels from "./labels.js";

export const byId = (id) => document.getElementById(id);
export const { api, prefix, index, owner, csrf } = document.body.dataset;
export const language = document.documentElement.lang;
export const figure = new Intl.NumberFormat("en");
export const T = (text, ...values) => (labels[text] || text).replace(/\{(\d)(?::\w)?\}/g, (_, n) => values[n]);
export const countOf = (n, one, many = `${one}s`) => T(`{0} ${n === 1 ? one : many}`, figure.format(n));

// Create an element. Texts are inserted as text, never as markup.
export const make = (tag, properties = {}, ...inside) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "onclick") element.addEventListener("click", value);
    else element.setAttribute(name === "className" ? "class" : name, value === true ? "" : value);
  }
  element.append(...inside.flat().filter((part) => part !== null && part !== undefined && part !== ""));
  return element;
};

// The parts of a message in backquotes are code.
export const withCode = (text) => text.split("`").map((part, n, parts) => (parts.length % 2 && n % 2 ? make("code", {}, part) : part));

const SVG = "http://www.w3.org/2000/svg"; // a namespace, not an address
export const draw = (tag, properties = {}, ...inside) => {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
  element.append(...inside);
  return element;
};

// Copy an icon that the page has already.
export const icon = (name) => document.querySelector(`#icons [data-icon="${name}"]`).cloneNode(true);

export const announce = (text) => { byId("live").textContent = text; };

// -- the language of a text, for its glyphs

export const textLanguage = (text) => (/[\u3041-\u30ff]/.test(text) ? "ja" : /[\u3400-\u9fff]/.test(text) ? "zh" : null);

// -- requests

export class Problem extends Error {
  constructor(status, detail) { super(detail); this.status = status; }
}

export const describe = (error) => {
  if (error instanceof Problem) return error.message;
  if (error instanceof TypeError) return T("The server does not answer: check that `kumi serve` is running, and try again.");
  return String(error.message || error);
};

const sentence = (text) => {
  const ended = /[.!?。！？]$/.test(text.trim()) ? text.trim() : `${text.trim()}.`;
  return ended[0].toUpperCase() + ended.slice(1);
};

const check = async (response) => {
  if (response.ok) return response;
  let detail = T("The server answered with an error ({0}): try again.", response.status);
  const kind = response.headers.get("content-type") || "";
  if (kind.includes("json")) {
    const body = await response.json();
    detail = sentence(typeof body.detail === "string" ? body.detail : detail);
    if (body.remedy && language === "en" && !detail.includes(": ")) detail += ` ${sentence(body.remedy)}`;
  }
  throw new Problem(response.status, detail);
};

const headersFor = (more) => ({ "Accept-Language": language, "X-CSRF-Token": csrf, ...more });

export const getJson = async (path, options = {}) => {
  const response = await check(await fetch(api + path, { ...options, headers: headersFor({ Accept: "application/json" }) }));
  return response.json();
};

export const sendJson = async (path, body, { method = "POST", ...options } = {}) => check(await fetch(api + path, {
  ...options, method, headers: headersFor(body === undefined ? {} : { "Content-Type": "application/json" }),
  body: body === undefined ? undefined : JSON.stringify(body),
}));

export const sendForm = async (address, form) => check(await fetch(address, { method: "POST", headers: headersFor({}), body: form, redirect: "follow" }));

// Fetch another page of this server, and return an element of it. The server has escaped its texts; scripts do not run.
export const fetchPart = async (address, selector, options = {}) => {
  const response = await fetch(address, { ...options, headers: { Accept: "text/html" } });
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const part = page.querySelector(selector);
  if (!part) throw new Problem(response.status, (page.querySelector("main")?.innerText || "").trim());
  return document.adoptNode(part);
};

// -- server-sent events from a response

export async function* readEvents(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = parseEvent(block);
      if (event) yield event;
    }
  }
}

const parseEvent = (block) => {
  const fields = {};
  for (const line of block.split("\n")) {
    const at = line.indexOf(": ");
    if (at > 0) fields[line.slice(0, at)] = line.slice(at + 2);
  }
  return fields.data ? { id: fields.id, name: fields.event || "message", data: JSON.parse(fields.data) } : null;
};
