"""a Chinese passage -> the 5W1H slots and the predicate, by a list of verbs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

_MAX_VALUE_CHARS = 12
_VERBS = """位於 位于 成為 成为 建立 成立 創立 创立 創建 创建 創辦 创办 發現 发现 發明 发明 發表 发表 發生
    发生 發行 发行 發展 发展 出版 出生 舉行 举行 舉辦 举办 參加 参加 參與 参与 擔任 担任 獲得
    获得 取得 得到 受到 進入 进入 進行 进行 開始 开始 結束 结束 前往 離開 离开 返回 到達 到达
    抵達 抵达 攻擊 攻击 佔領 占领 擊敗 击败 統治 统治 控制 決定 决定 宣布 宣佈 提出 認為 认为
    表示 指出 指 使用 利用 採用 采用 製造 制造 製作 制作 生產 生产 設計 设计 設立 设立 建造
    興建 兴建 修建 改名 更名 命名 稱為 称为 叫做 包括 包含 擁有 拥有 具有 屬於 属于 來自 来自
    源自 導致 导致 造成 引起 影響 影响 支持 反對 反对 要求 允許 允许 禁止 簽署 签署 通過 通过
    接受 拒絕 拒绝 完成 實施 实施 實現 实现 增加 減少 减少 超過 超过 達到 达到 改變 改变 變成
    变成 轉變 转变 死亡 逝世 去世 結婚 结婚 畢業 毕业 任命 選舉 选举 當選 当选 研究 教授 學習
    学习 寫 写 看見 看见 看到 聽到 听到 知道 相信 喜歡 喜欢 購買 购买 出售 加入 組成 组成 形成
    出現 出现 存在 負責 负责 管理 領導 领导 率領 率领 居住 住 是 有 說 说 去 來 来 給 给 送
    殺 杀 打開 打开 放棄 放弃 保護 保护 提供 描述 介紹 介绍 證明 证明 推出 播出 出演 演唱 贏得
    赢得 失去 分為 分为"""
_PLACE_ENDS = "上下中裡里內内外旁邊边附近"


@cache  # slow to compile, so only on first use
def _verb_pattern() -> re.Pattern[str]:
    return re.compile("|".join(sorted(_VERBS.split(), key=lambda verb: (-len(verb), verb))))


@cache
def _phrase_patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    run = "[A-Za-z0-9\u3400-\u9fff·‧・•]"
    verb = _verb_pattern().pattern
    until = rf"(?=[，,。；、的]|{verb})"
    why = rf"(?:因為|因为|由於|由于)({run}{{2,20}}?)(?=[，,。；]|而|所以)"
    how = rf"(?:透過|通過|通过|利用|使用|藉由|借助|憑藉|凭借)({run}{{2,14}}?)(?=[，,。；]|來|来|{verb})"
    where = rf"[在於于至到](?!年)({run}{{2,12}}?)[{_PLACE_ENDS}]?{until}"
    return ("why", re.compile(why)), ("how", re.compile(how)), ("where", re.compile(where))


_CLAUSE = re.compile(r"[^，,。；;！？!?：:\n]+")
_TIME = re.compile(
    "(?:公元前?|西元前?)?[0-9一二三四五六七八九十]{1,4}(?:年代?|世紀|世纪|月|日)(?:[0-9一二三四五六七八九十]{1,2}[月日])*(?:初|底|末|間|间|後|后)?"
    "|(?:今|去|明|同|隔|翌|次)[年日天]|昨[天日晚]|當[時年]|当[时年]|后来|後來|目前|現在|现在"
)
_TIME_PHRASE = re.compile(f"[在於于]?(?:{_TIME.pattern})")
_EDGE_WORDS = re.compile(
    "^(?:而|但|但是|並|并|並且|并且|且|也|又|則|则|其中|此外|因此|所以|由於|由于|因為|因为|雖然|虽然|如果|在|於|于|了|著|着|過|过|個|个|一個|一个|一種|一种"
    "|一位|一座|的|為|为|到|出|對|对|從|从|與|与|和|給|给|把|以|用|他|她|它|才|不過|不过)+|(?:對|对|從|从|與|与|和|給|给|把|以|用|才|還|还|則|则|也|都|曾|已|已經|已经|將|将|被|會|会|可以|可能|能|不|就|便|並|并|的|了|共同|正式|後來|后来|主要|一直|開始|开始)+$"
)
_PRONOUNS = frozenset(
    """誰 谁 什麼 什么 何時 哪裡 哪里 為什麼 为什么 他 她 它 他們 他们 她們 她们 我 我們 我们 你 這 这 那 其 此 這些
    这些 該 该 自己 人 之""".split()  # noqa: SIM905
)


def find_chinese_slots(text: str) -> Iterator[tuple[str, str]]:
    """Yield slots and values, clause by clause.

    Values are words of the text.

    >>> slots = find_chinese_slots("1949年後，因為戰爭，國民政府遷往臺灣。王先生通過考試進入大學。")
    >>> "; ".join(map(": ".join, slots))
    'when: 1949年後; why: 戰爭; how: 考試; who: 王先生; predicate: 進入; what: 大學'
    """
    for clause in _CLAUSE.finditer(text):
        phrase = clause[0].strip()
        yield from (("when", time[0]) for time in _TIME.finditer(phrase))
        rest = _TIME_PHRASE.sub("", phrase)
        for slot, pattern in _phrase_patterns():
            for match in pattern.finditer(f"{rest}。"):
                if not _TIME.fullmatch(match[1]):
                    yield slot, match[1]
            rest = pattern.sub("", f"{rest}。").rstrip("。")
        yield from _clause_slots(rest)


def _clause_slots(clause: str) -> Iterator[tuple[str, str]]:
    """Yield a verb, its subject and its object."""
    verb = _verb_pattern().search(clause)
    if not verb:
        return
    who = _trim_piece(clause[: verb.start()])
    what = _trim_piece(clause[verb.end() :])
    if who and len(who) <= _MAX_VALUE_CHARS and who not in _PRONOUNS:
        yield "who", who
    if verb[0] not in "是有":
        yield "predicate", verb[0]
    if what and len(what) <= _MAX_VALUE_CHARS and what not in _PRONOUNS:
        yield "what", what


def _trim_piece(piece: str) -> str:
    return _EDGE_WORDS.sub("", piece.strip("「」『』（）()《》 、")).strip("「」『』（）()《》 、")
