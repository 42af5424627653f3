"""lines and quotations -> the parts of an answer, with citations, in the language of the question."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kumihimo.core import answer, spans
from kumihimo.text.sentences import collapse_spaces

MAX_CHARS, MAX_LONG_CHARS = 1200, 2000  # of an answer, and of a list or of topics
_SENTENCE_CHARS = 160
_WORDING: Mapping[str, Mapping[str, str]] = {
    "topics": {"en": "Frequent topics:", "ja": "多い話題：", "zh": "常见话题：", "zh-Hant": "常見話題："},
    "its documents": {"en": "The documents:", "ja": "文書：", "zh": "文档：", "zh-Hant": "文件："},
    "other documents": {"en": "Other documents:", "ja": "ほかの文書：", "zh": "其他文档：", "zh-Hant": "其他文件："},
    "kind text": {"en": "texts", "ja": "テキスト", "zh": "文本", "zh-Hant": "文字檔"},
    "kind document": {
        "en": "word-processor files",
        "ja": "ワープロ文書",
        "zh": "文字处理文档",
        "zh-Hant": "文書處理檔",
    },
    "kind slides": {"en": "slides", "ja": "スライド", "zh": "幻灯片", "zh-Hant": "投影片"},
    "kind sheet": {"en": "tables", "ja": "表", "zh": "表格", "zh-Hant": "表格"},
    "kind page": {"en": "web pages", "ja": "ウェブページ", "zh": "网页", "zh-Hant": "網頁"},
    "kind pdf": {"en": "PDF files", "ja": "PDF", "zh": "PDF", "zh-Hant": "PDF"},
    "kind book": {"en": "books", "ja": "電子書籍", "zh": "电子书", "zh-Hant": "電子書"},
    "kind mail": {"en": "letters", "ja": "メール", "zh": "邮件", "zh-Hant": "郵件"},
    "kind mailbox": {"en": "mailboxes", "ja": "メールボックス", "zh": "邮箱", "zh-Hant": "郵箱"},
    "kind notebook": {"en": "notebooks", "ja": "ノートブック", "zh": "笔记本", "zh-Hant": "筆記本"},
    "kind data": {"en": "data files", "ja": "データ", "zh": "数据文件", "zh-Hant": "資料檔"},
    "kind references": {"en": "references", "ja": "参考文献", "zh": "参考文献", "zh-Hant": "參考文獻"},
    "kind subtitles": {"en": "subtitles", "ja": "字幕", "zh": "字幕", "zh-Hant": "字幕"},
    "kind archive": {"en": "archives", "ja": "アーカイブ", "zh": "压缩包", "zh-Hant": "壓縮檔"},
    "kind picture": {"en": "pictures", "ja": "画像", "zh": "图片", "zh-Hant": "圖片"},
    "kind code": {"en": "program code", "ja": "プログラム", "zh": "代码", "zh-Hant": "程式碼"},
    "language en": {"en": "English", "ja": "英語", "zh": "英语", "zh-Hant": "英語"},
    "language ja": {"en": "Japanese", "ja": "日本語", "zh": "日语", "zh-Hant": "日語"},
    "language zh": {"en": "Chinese", "ja": "中国語", "zh": "中文", "zh-Hant": "中文"},
    "language de": {"en": "German", "ja": "ドイツ語", "zh": "德语", "zh-Hant": "德語"},
    "language fr": {"en": "French", "ja": "フランス語", "zh": "法语", "zh-Hant": "法語"},
    "language es": {"en": "Spanish", "ja": "スペイン語", "zh": "西班牙语", "zh-Hant": "西班牙語"},
    "language it": {"en": "Italian", "ja": "イタリア語", "zh": "意大利语", "zh-Hant": "義大利語"},
    "language pt": {"en": "Portuguese", "ja": "ポルトガル語", "zh": "葡萄牙语", "zh-Hant": "葡萄牙語"},
    "language nl": {"en": "Dutch", "ja": "オランダ語", "zh": "荷兰语", "zh-Hant": "荷蘭語"},
    "language ru": {"en": "Russian", "ja": "ロシア語", "zh": "俄语", "zh-Hant": "俄語"},
    "language ko": {"en": "Korean", "ja": "韓国語", "zh": "韩语", "zh-Hant": "韓語"},
    "language ar": {"en": "Arabic", "ja": "アラビア語", "zh": "阿拉伯语", "zh-Hant": "阿拉伯語"},
    "several documents": {
        "en": "Several documents may be meant by “{subject}”. Name one of them:",
        "ja": "「{subject}」に当たる文書は複数あります。どれか一つを指定してください：",
        "zh": "“{subject}”可能指多份文档。请指明其中一份：",
        "zh-Hant": "「{subject}」可能指多份文件。請指明其中一份：",
    },
    "absent": {
        "en": "No document mentions {words}.",
        "ja": "{words}に触れている文書はありません。",
        "zh": "没有文档提到{words}。",
        "zh-Hant": "沒有文件提到{words}。",
    },
    "documents": {"en": "{n} documents", "ja": "{n}件の文書", "zh": "{n}份文档", "zh-Hant": "{n}份文件"},
    "document": {"en": "1 document", "ja": "1件の文書", "zh": "1份文档", "zh-Hant": "1份文件"},
    "passages": {"en": "{n} passages", "ja": "{n}箇所", "zh": "{n}个段落", "zh-Hant": "{n}個段落"},
    "passage": {"en": "1 passage", "ja": "1箇所", "zh": "1个段落", "zh-Hant": "1個段落"},
    "folders": {
        "en": "folders: {names}",
        "ja": "フォルダー：{names}",
        "zh": "文件夹：{names}",
        "zh-Hant": "資料夾：{names}",
    },
    "sampled": {
        "en": "(Counted in a sample: {n} of {total} passages.)",
        "ja": "（標本による数です：全{total}箇所のうち{n}箇所。）",
        "zh": "（按样本统计：{total}处中的{n}处。）",
        "zh-Hant": "（按樣本統計：{total}處中的{n}處。）",
    },
    "selected": {
        "en": "{n} of {total} documents ({labels}):",
        "ja": "{total}件の文書のうち{n}件（{labels}）：",
        "zh": "{total}份文档中的{n}份（{labels}）：",
        "zh-Hant": "{total}份文件中的{n}份（{labels}）：",
    },
    "mention": {"en": "text: {value}", "ja": "本文：{value}", "zh": "正文：{value}", "zh-Hant": "正文：{value}"},
    "folder": {
        "en": "folder: {value}",
        "ja": "フォルダー：{value}",
        "zh": "文件夹：{value}",
        "zh-Hant": "資料夾：{value}",
    },
    "title": {"en": "title: {value}", "ja": "題名：{value}", "zh": "标题：{value}", "zh-Hant": "標題：{value}"},
    "author": {"en": "author: {value}", "ja": "著者：{value}", "zh": "作者：{value}", "zh-Hant": "作者：{value}"},
    "date": {"en": "date: {value}", "ja": "日付：{value}", "zh": "日期：{value}", "zh-Hant": "日期：{value}"},
    "language": {"en": "language: {value}", "ja": "言語：{value}", "zh": "语言：{value}", "zh-Hant": "語言：{value}"},
    "kind": {"en": "kind: {value}", "ja": "種類：{value}", "zh": "类型：{value}", "zh-Hant": "類型：{value}"},
    "newest": {"en": "newest: {value}", "ja": "最新：{value}", "zh": "最新：{value}", "zh-Hant": "最新：{value}"},
    "oldest": {"en": "oldest: {value}", "ja": "最古：{value}", "zh": "最早：{value}", "zh-Hant": "最早：{value}"},
    "undated": {
        "en": "(Without a date: {n}.)",
        "ja": "（日付なし：{n}件）",
        "zh": "（无日期：{n}）",
        "zh-Hant": "（無日期：{n}）",
    },
    "more": {"en": "… and {n} more.", "ja": "…ほか{n}件。", "zh": "……另有{n}项。", "zh-Hant": "……另有{n}項。"},
    "all documents": {
        "en": "{n} documents in {files} files:",
        "ja": "文書 {n}件（ファイル {files}件）：",
        "zh": "{n}份文档（{files}个文件）：",
        "zh-Hant": "{n}份文件（{files}個檔案）：",
    },
    "highest": {"en": "Highest", "ja": "最も高い値", "zh": "最高值", "zh-Hant": "最高值"},
    "lowest": {"en": "Lowest", "ja": "最も低い値", "zh": "最低值", "zh-Hant": "最低值"},
    "total": {"en": "Total", "ja": "合計", "zh": "合计", "zh-Hant": "合計"},
    "average": {"en": "Average", "ja": "平均", "zh": "平均", "zh-Hant": "平均"},
    "rows": {
        "en": "{what} “{column}” of the {n} rows with a number (the table has {total}{where}): {value}",
        "ja": "「{column}」の{what}（数値のある{n}行、表は全{total}行{where}）：{value}",
        "zh": "“{column}”的{what}（有数值的{n}行，全表{total}行{where}）：{value}",
        "zh-Hant": "「{column}」的{what}（有數值的{n}列，全表{total}列{where}）：{value}",
    },
    "found": {
        "en": "{n} of {total} rows{where}:",
        "ja": "全{total}行のうち{n}行{where}：",
        "zh": "全表{total}行中的{n}行{where}：",
        "zh-Hant": "全表{total}列中的{n}列{where}：",
    },
    "long table": {
        "en": "The rows of “{title}” were not compared: it has more than {n} characters.",
        "ja": "「{title}」は{n}文字を超えるため、行を比較していません。",
        "zh": "“{title}”超过{n}个字符，因此没有比较各行。",
        "zh-Hant": "「{title}」超過{n}個字元，因此沒有比較各列。",
    },
    "unclear": {
        "en": "{what} “{column}”: not computed, because it is not clear which number “{one}” is.",
        "ja": "「{column}」の{what}：「{one}」がどの数を表すか分からないため、計算していません。",
        "zh": "“{column}”的{what}：无法确定“{one}”是哪个数，因此没有计算。",
        "zh-Hant": "「{column}」的{what}：無法確定「{one}」是哪個數，因此沒有計算。",
    },
    "units": {
        "en": "{what} “{column}”: not computed, because the cells have several units ({one}, {other}).",
        "ja": "「{column}」の{what}：単位が揃っていない（{one}、{other}）ため、計算していません。",
        "zh": "“{column}”的{what}：单位不一致（{one}、{other}），因此没有计算。",
        "zh-Hant": "「{column}」的{what}：單位不一致（{one}、{other}），因此沒有計算。",
    },
    "mixed": {
        "en": "{what} “{column}”: not computed, because “{one}” and “{other}” do not use decimal marks alike.",
        "ja": "「{column}」の{what}：「{one}」と「{other}」で小数点の書き方が異なるため、計算していません。",
        "zh": "“{column}”的{what}：“{one}”与“{other}”的小数点写法不同，因此没有计算。",
        "zh-Hant": "「{column}」的{what}：「{one}」與「{other}」的小數點寫法不同，因此沒有計算。",
    },
    "separators": {
        "en": "{what} “{column}”: not computed, because “{one}” may be {other} or {third}.",
        "ja": "「{column}」の{what}：「{one}」が {other} か {third} か分からないため、計算していません。",
        "zh": "“{column}”的{what}：“{one}”可能是 {other}，也可能是 {third}，因此没有计算。",
        "zh-Hant": "「{column}」的{what}：「{one}」可能是 {other}，也可能是 {third}，因此沒有計算。",
    },
    "about": {
        "en": "(about {names})",
        "ja": "（{names}について）",
        "zh": "（关于{names}）",
        "zh-Hant": "（關於{names}）",
    },
}


def say(name: str, language: str, default: str = "", **values: object) -> str:
    """Return one of the sentences that answers add.

    default: for a name without one.

    >>> say("passages", "ja", n=3), say("language tlh", "en", "tlh")
    ('3箇所', 'tlh')
    """
    wording = _WORDING.get(name) if default else _WORDING[name]
    return wording[language].format(**values) if wording else default


def name_value(name: str, value: str, language: str) -> str:
    """Return what a kind of documents, or a language, is called.

    >>> name_value("kind", "sheet", "zh"), name_value("author", "Ann", "zh")
    ('表格', 'Ann')
    """
    return say(f"{name} {value}", language, default=value)


def quote_words(words: Sequence[str], language: str) -> str:
    """Return words in quotation marks.

    >>> quote_words(["Oslo", "Bergen"], "en"), quote_words(["富士山", "阿蘇"], "ja")
    ('“Oslo”, “Bergen”', '「富士山」、「阿蘇」')
    """
    before, after = "「」" if language in ("ja", "zh-Hant") else "“”"
    return (", " if language == "en" else "、").join(f"{before}{word}{after}" for word in words)


def say_count(name: str, n: int, language: str) -> str:
    """Return a number of documents or passages.

    >>> say_count("document", 1, "en"), say_count("document", 1669, "en")
    ('1 document', '1,669 documents')
    """
    return say(name, language) if n == 1 else say(f"{name}s", language, n=f"{n:,}")


@dataclass
class Draft:
    """The parts of an answer, up to a number of characters."""

    limit: int = MAX_CHARS
    status: answer.Status = "answered"
    parts: list[answer.Part] = field(default_factory=list)
    citations: list[spans.Citation] = field(default_factory=list)
    size: int = 0  # characters so far, with the numbers of sources

    def add(self, line: str, kind: answer.PartKind = "note") -> bool:
        """Add a line, if there is room."""
        return self._add(kind, line, [])

    def quote(self, span: spans.Span, before: str = "") -> bool:
        """Add a quotation to a list, if it fits.

        Dots show that its sentence goes on.
        """
        text = collapse_spaces(span.text)
        dots = "" if not text[-1:].isalnum() and text[-1:] not in ",、，" else " …"
        return self.cite(f"{before}{text}{dots}", span)

    def cite(self, line: str, span: spans.Span, kind: answer.PartKind = "list") -> bool:
        """Add a line with its source, if it fits."""
        return self._add(kind, line, [spans.Citation(len(self.citations) + 1, span)])

    def _add(self, kind: answer.PartKind, line: str, citations: list[spans.Citation]) -> bool:
        new = answer.Part.ending_with(kind, line, citations)
        size = len(new.marked().text)
        if self.size + size > self.limit:
            return False
        self.size += size + 1
        self.citations += citations
        if kind in ("list", "table") and self.parts and self.parts[-1].kind == kind:
            new = self.parts.pop().with_line(new)
        self.parts.append(new)
        return True


def cut_span(span: spans.Span, start: int, end: int) -> spans.Span:
    """Return a part of a span, by its characters."""
    return replace(span, start=span.start + start, end=span.start + end, text=span.text[start:end])


def shorten_span(chunk: spans.Span, start: int, end: int) -> spans.Span:
    """Return a sentence of at most 160 characters, cut between words."""
    if end - start > _SENTENCE_CHARS:
        cut = chunk.text.rfind(" ", start, start + _SENTENCE_CHARS)
        end = cut if cut > start + _SENTENCE_CHARS // 2 else start + _SENTENCE_CHARS
    return cut_span(chunk, start, end)
