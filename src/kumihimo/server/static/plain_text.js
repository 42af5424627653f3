// a text in Markdown -> the text without the signs of Markdown, and its pieces; pages/markdown.py does the same.

const ADDRESS = String.raw`\((?:[^()\s]|\([^()\s]{0,200}\)){0,500}(?: "[^"\n]{0,200}")?\)`;
const CUT = String.raw`\([^)\s]{0,500}$(?![^])`;
const SIGN = new RegExp([
  String.raw`^[ \t]*(?:${"```"}.*|(?:[-*_=:|][ \t]*){3,})$\n?`, // the fence of code, a ruler
  String.raw`(?:^|(?<=^…)|(?<=[.!?。！？…] ))[ ]{0,3}#{1,6}[ ]+|(?<= )#{2,6}[ ]+`, // a heading; a snippet is one line
  String.raw`^[ ]{0,3}>[> ]*`, // a quotation
  String.raw`!?\[(?=[^\[\]\n]{0,300}\](?:${ADDRESS}|${CUT}))`, // a link before its words
  String.raw`\](?:${ADDRESS}|${CUT})`, // and behind them, perhaps cut off
  String.raw`!?\[\[(?:[^\[\]|\n]{1,300}\|)?(?<wiki>[^\[\]|\n]{1,300})\]\]`,
  String.raw`\*\*|${"`"}+`,
  String.raw`(?<![\p{L}\p{N}_*])\*(?<star>[^\s*](?:[^*\n]{0,300}[^\s*])?)\*(?![\p{L}\p{N}_*])`,
  String.raw`(?<![\p{L}\p{N}_])_(?<line>[^\s_](?:[^_\n]{0,300}[^\s_])?)_(?![\p{L}\p{N}_])`,
].join("|"), "gmu");

const signSpans = (text, from = 0) => [...text.matchAll(SIGN)].flatMap((match) => {
  const start = from + match.index, end = start + match[0].length, { star, line, wiki } = match.groups;
  const inner = star ?? line ?? wiki, stop = end - (wiki ? 2 : 1);
  return inner === undefined ? [[start, end]] : [[start, stop - inner.length], ...signSpans(inner, stop - inner.length), [stop, end]];
});

const without = (text, signs, start, end) => {
  let kept = "", at = start;
  for (const [first, last] of signs) {
    if (at >= last || first >= end) continue;
    kept += text.slice(at, Math.max(at, first));
    at = last;
  }
  return kept + text.slice(at, Math.max(at, end));
};

// Pieces of a text, each with whether it is marked.
export const markedPieces = (text, marks = []) => {
  const signs = signSpans(text), pieces = [];
  let end = 0;
  for (const [start, stop] of [...marks, [text.length, text.length]]) {
    pieces.push([without(text, signs, end, start), false], [without(text, signs, start, stop), true]);
    end = stop;
  }
  return pieces.filter(([piece]) => piece);
};

export const plainText = (text) => markedPieces(text).map(([piece]) => piece).join("");
