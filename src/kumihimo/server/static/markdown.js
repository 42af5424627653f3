// the Markdown of an answer -> elements; pages/markdown.py does the same on the server. Links become their words, HTML stays text.
import { make } from "./lib.js";

const INLINE = /\*\*(\S(?:[\s\S]{0,400}?\S)?)\*\*|`([^`\n]+)`|\ue000([\d,]+)\ue001|!?\[([^\[\]\n]{1,300})\]\((?:[^()\s]|\([^()\s]{0,200}\)){0,500}\)/g;
const HEADING = /^(#{1,6})\s+(.*)$/;
const ITEM = /^(\s*)([-*•]|\d{1,9}[.)])\s+(.*)$/;
const ROW = /^\s*\|(.*)\|\s*$/;
const RULER = /^[\s|:-]*-[\s|:-]*$/;

// A marker of citations that no text has by itself.
export const writeCite = (numbers) => `\ue000${numbers.join(",")}\ue001`;

// cite: number -> the element of a citation, or null.
export const inline = (text, cite) => {
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > end) parts.push(text.slice(end, match.index));
    if (match[1] !== undefined) parts.push(make("strong", {}, inline(match[1], cite)));
    else if (match[2] !== undefined) parts.push(make("code", {}, match[2]));
    else if (match[4] !== undefined) parts.push(...inline(match[4], cite));
    else parts.push(...match[3].split(",").map((n) => cite(Number(n)) || `[${n}]`));
    end = match.index + match[0].length;
  }
  parts.push(text.slice(end));
  return parts;
};

const cellsOf = (row) => row.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));

export const parse = (text) => {
  const blocks = [];
  let current = null, list = null, afterBlank = false;
  const begin = (block) => { blocks.push(block); current = block; list = null; };

  const addItem = (indent, marker, words) => {
    const item = { kind: "paragraph", text: words, items: [] };
    const start = parseInt(marker, 10) || 0;
    if (list && indent >= list.indent + 2 && list.items.length) {
      const last = list.items.at(-1);
      if (!last.items.length) last.items.push({ kind: "list", start, indent, items: [] });
      last.items.at(-1).items.push(item);
    } else {
      if (!list || Boolean(list.start) !== Boolean(start)) {
        begin({ kind: "list", start, indent, items: [] });
        list = current;
      }
      list.items.push(item);
    }
    current = item;
  };
  const addText = (line) => {
    const words = line.trim(), quoted = line.startsWith(">");
    const bare = quoted ? words.replace(/^[> ]+/, "") : words;
    if (current && (current.kind === "paragraph" || current.kind === "quote")) current.text += `\n${bare}`;
    else if (list && /^\s/.test(line) && afterBlank) list.items.at(-1).text += `\n${words}`;
    else begin({ kind: quoted ? "quote" : "paragraph", text: bare, items: [] });
  };

  for (const line of text.split("\n")) {
    let match;
    if (current?.kind === "code") {
      if (line.trim().startsWith("```")) current = null;
      else current.text += `${line}\n`;
    } else if (line.trim().startsWith("```")) begin({ kind: "code", text: "" });
    else if (!line.trim()) { afterBlank = true; current = null; continue; }
    else if ((match = line.match(HEADING))) { begin({ kind: "heading", level: match[1].length, text: match[2].trim() }); current = null; }
    else if ((match = line.match(ROW))) {
      if (current?.kind !== "table") begin({ kind: "table", rows: [], hasHead: false });
      if (current.rows.length === 1 && RULER.test(line)) current.hasHead = true;
      else current.rows.push(cellsOf(match[1]));
    } else if ((match = line.match(ITEM))) addItem(match[1].length, match[2], match[3]);
    else addText(line);
    afterBlank = false;
  }
  return blocks;
};

const table = (block, cite) => {
  const rows = block.rows.map((row, n) => make("tr", {}, row.map((cell) =>
    make(block.hasHead && !n ? "th" : "td", block.hasHead && !n ? { scope: "col" } : {}, inline(cell, cite)))));
  const head = block.hasHead ? make("thead", {}, rows.shift()) : null;
  return make("div", { className: "wide", tabindex: 0, role: "group" }, make("table", {}, head, make("tbody", {}, rows)));
};

const list = (block, cite) => make(block.start ? "ol" : "ul", block.start ? { start: block.start } : {},
  block.items.map((item) => make("li", {}, inline(item.text, cite), item.items.map((inner) => list(inner, cite)))));

export const render = (text, cite = () => null) => parse(text).map((block) => {
  if (block.kind === "heading") return make(`h${Math.min(block.level + 1, 4)}`, {}, inline(block.text, cite));
  if (block.kind === "list") return list(block, cite);
  if (block.kind === "table") return table(block, cite);
  if (block.kind === "code") return make("pre", { tabindex: 0 }, block.text);
  return make(block.kind === "quote" ? "blockquote" : "p", {}, inline(block.text, cite));
});
