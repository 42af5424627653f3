"""bytes -> text, whatever the encoding; an error if they are not text.

All detectors mistake many short Japanese and Chinese texts for others. In a dozen characters, their frequency tells a
right decoding from a wrong one: a wrong one yields rare ideographs, half-width kana, or an ideograph between two Latin
letters. Alphabets are left to chardetng, the detector of Firefox.
"""

import codecs
import re
from contextlib import suppress

from kumihimo.core.errors import SourceError

BYTE_ORDER_MARKS = (  # UTF-32 first: its little-endian mark begins with the one of UTF-16
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# ISO-2022-JP switches character sets with these.
ISO_2022_ESCAPE = re.compile(rb"\x1b\$[@AB]|\x1b\$\([CDOPQ]|\x1b\([IJ]")
ISO_2022_ENCODINGS = ("iso2022_jp_2", "iso2022_jp_ext", "iso2022_jp_2004")
# Tab, line ends, form feed, \b and escape are text.
CONTROL_CHAR = re.compile(r"[\x00-\x07\x0e-\x1a\x1c-\x1f\ufffe\uffff]")
TEXT_CODEC = re.compile(r"utf-8|cp\d|iso|euc|gb|big5|koi8|mac|shift|tis")  # `rot13` and `idna` are codecs too
HIGH_BYTES = bytes(range(128, 256))
SAMPLE_BYTES = 4096
CERTAIN_BYTES = 32  # outside ASCII; with so many, no paragraph in 18 languages came out wrong
DECLARATION = re.compile(rb"""\b(?:charset|encoding)\s*+=\s*+["']?\s*+([\w.:-]+)""", re.I)
GOOD_PER_BROKEN = 20  # with fewer good characters for each broken one, it is another encoding, not damage

# How browsers interpret these labels; Python knows the others.
ENCODING_LABELS = {
    "iso-8859-1": "cp1252",
    "latin1": "cp1252",
    "us-ascii": "cp1252",
    "ascii": "cp1252",
    "shift_jis": "cp932",
    "shift-jis": "cp932",
    "x-sjis": "cp932",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc-kr": "cp949",
    "utf-16": "utf-8",  # a label readable as ASCII is not in UTF-16
}

# The most frequent ideographs of newspapers, about 500 for each script: three in four of those in running text.
COMMON_KANJI = frozenset(
    "日一国会人年大十二本中長出三同時政事自行社見月分議後前民生連五発間対上部東者党地合市業内相方四定今回新場金員九入選"
    "立開手米力学問高代明実円関決子動京全目表戦経通外最言氏現理調体化田当八六約主題下首意法不来作性的要用制治度務強気小"
    "七成期公野協取都和統以機平総加山思家話世受区領多県続進正安設保改数記院女初北午指権心界支第産結百派点教報済書府活原"
    "先共得解名交資予川向際査勝面委告軍文反元重近千考判認画海参売利組知案道信策集在件団別物側任引使求所次水半品昨論計死"
    "官増係感特情投示変打男基私各始島直両朝革価式確村提運終挙果西勢減台広容必応演電歳住争談能無再位置企真流格有疑口過局"
    "少放税検藤町常校料沢裁状工建語球営空職証土与急止送援供可役構木割聞身費付施切由説転食比難防補車優夫研収断井何南石足"
    "違消境神番規術護展態導鮮備宅害配副算視条幹独警宮究育席輸訪楽起万着乗店述残想線率病農州武声質念待試族象銀域助労例然"
    "早張限親額監環験追審商葉義伝働形景落担好退準辺造英株頭技低毎医復仕去姿味負閣渡失移差衆個門写評課末守若脳種美命福望"
    "録訳第佐鈴橋様御請込頼願届読"
)
COMMON_HANZI = frozenset(
    "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种事"
    "成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日军者意无力它与长把机十民第公此"
    "已工使情明性知全三又关点正业外将两高间由问很最重并物手应战向头文体政美相见被利什二等产或新己制身果加西斯月话合回特代"
    "内信表化老给世位次度门任常先海通教儿原东声提立及比员解水名真论处走义各入几口认条平系气题活尔更别打女变四神总何电数安"
    "少报才结反受目太量再感建务做接必场件计管期市直德资命山金指克许统区保至队形社便空决治展马科司五基眼书非则听白却界达光"
    "放强即像难且权思王象完设式色路记南品住告类求据程北边死张该交规万取拉格望觉术领共确传师观清今切院让识候带导争运京城州"
    "華這個們來為國說時會對過發後裡種經麼學現當沒動還進樣開從實軍無與長機關點業將兩間問應戰頭體見產話內給門兒東聲員論處義"
    "幾認條氣題爾變總電數報結務場計資許統區隊決馬書則聽達強難權設記類據邊張該規萬覺術領確傳師觀讓識帶導爭運縣臺灣於並係"
    "选举价格项目文件请谢邮件网络语言模训练选項請謝郵網語訓練"
)
COMMON_HANGUL = frozenset(
    "이다는을의에가고하지로사기리도서나어대시자은인한해들과으일제정부있전라아주장그스보수상만년원안국"
)

CANDIDATE_ENCODINGS = ("cp932", "euc_jp", "gb18030", "big5", "cp949", "cp1252")

REPLACEMENT_CHAR = "\ufffd"
BROKEN_WEIGHT = -10.0  # one broken character in a page is damage; in a phrase it shows the wrong encoding
IDEOGRAPHS = range(0x3400, 0xA000)
KANA = range(0x3041, 0x30FF)
SYLLABLES = range(0xAC00, 0xD7A4)
PRIVATE_USE = range(0xE000, 0xF900)

LATIN_IN_UTF8 = re.compile(rb"\xc3[\x80-\xbf]")
WRONG_CHAR = re.compile(r"[\ufffd\x80-\x84\x86-\x9f]")  # of a wrong decoding: controls that no text has
NON_ASCII_RUN = re.compile(r"[^\x00-\x7f]+")
ALPHABETIC = re.compile(r"[\t\n\r\x20-\xff\u0386-\u06ff\u3000-\u30ff\uac00-\ud7a3]")
CJK_PUNCTUATION = frozenset(
    "、。，．・：；？！「」『』（）《》〈〉【】［］〔〕“”‘’　〜～…―—–●○◎■□◆◇★☆※→←↑↓±×÷℃々ー①②③④⑤⑥⑦⑧⑨⑩"
)
LATIN_SIGNS = frozenset("«»“”‘’‚„–—…€£§°©®™·•¿¡ºª±²³µ½¼¾×\xa0´")
UNNATURAL_PAIR = re.compile(r"[^\W\d_][£¿¡¹²³¼½¾±§©®¥¦×÷][^\W\d_]|[à-öø-ÿ][A-Z]")  # a sign within a word, `åK`

# From the first byte outside ASCII: enough to decide, and a book takes no longer than a page.
LEGACY_SAMPLE_BYTES = 1 << 14
# Correct decodings of 5 to 25 characters score .4 to 1; Cyrillic, Greek, Arabic and Thai mostly score less.
PLAUSIBLE_SCORE = 0.4
CERTAIN_SCORES = {"cp949": 0.6}  # .7 for other ones; with less, the decoding is compared with other alphabets


def decode(data: bytes, name: str = "the file", declared: str = "") -> str:
    """Decode bytes to text, without the byte-order mark.

    declared: the encoding that the file itself names.
    Raise SourceError if the encoding is unknown, or the bytes are not text.

    >>> decode("デジタル庁".encode("cp932"))
    'デジタル庁'
    """
    text = _decode_certain(data, declared)
    if text is None:
        text = _decode_utf16(data) if 0 in data else _decode_guessing(data)
    if text is None:
        raise SourceError(f"{name}: cannot tell the encoding; save the file as UTF-8")
    if "\0" in text or len(CONTROL_CHAR.findall(text)) * GOOD_PER_BROKEN > len(text):
        raise SourceError(f"{name}: this is not text; name it by its real format, or list it in .kumiignore")
    return text


def _decode_utf16(data: bytes) -> str:
    """Decode UTF-16 without a byte-order mark.

    Use the byte order that reads better. Binary data keeps its zeros, so that the caller can detect them.
    """
    samples = {order: data[:SAMPLE_BYTES].decode(order, "replace") for order in ("utf-16-le", "utf-16-be")}
    share, encoding = max((familiar_share(sample), order) for order, sample in samples.items())
    return data.decode(encoding if share > 0.5 else "latin-1", "replace")


def _decode_certain(data: bytes, declared: str) -> str | None:
    """Decode a text whose mark, form or label tells its encoding."""
    for bom, encoding in BYTE_ORDER_MARKS:
        if data.startswith(bom):
            return data[len(bom) :].decode(encoding, "replace")
    if 0 in data:
        return None
    if data.isascii() and ISO_2022_ESCAPE.search(data):
        texts = [data.decode(encoding, "replace") for encoding in ISO_2022_ENCODINGS]
        return min(texts, key=lambda text: text.count(REPLACEMENT_CHAR))
    encoding = _resolve_label(declared)
    accepts_all = len(HIGH_BYTES.decode(encoding, "replace")) == len(HIGH_BYTES)  # so success proves nothing
    for candidate in ("utf-8", encoding) if accepts_all else (encoding, "utf-8"):
        with suppress(UnicodeError):
            return data.decode(candidate)
    return None


def describe_guess(data: bytes) -> list[str]:
    """Return a note if few letters tell the encoding of a text.

    >>> describe_guess("Grüße aus Köln".encode("latin-1"))
    ['its encoding is guessed from 3 bytes; if letters are wrong, save it as UTF-8']
    """
    count = len(data) - len(data.translate(None, HIGH_BYTES))
    if not 0 < count < CERTAIN_BYTES or 0 in data or has_only_signs(_take_sample(data)):
        return []
    label = DECLARATION.search(data[:SAMPLE_BYTES])
    remarks = [f"its encoding is guessed from {count} bytes; if letters are wrong, save it as UTF-8"]
    return remarks if _decode_certain(data, label[1].decode() if label else "") is None else []


def _resolve_label(label: str) -> str:
    """Return the codec of a declared encoding; UTF-8 for an unknown one."""
    label = label.strip().lower()
    try:
        name = codecs.lookup(ENCODING_LABELS.get(label, label)).name
    except (LookupError, ValueError):
        return "utf-8"
    return name if TEXT_CODEC.match(name) else "utf-8"


def _decode_guessing(data: bytes) -> str | None:
    """Return the text in the likeliest encoding; None if none makes sense."""
    text = data.decode("utf-8", "replace")
    broken = text.count(REPLACEMENT_CHAR)
    good = sum(not char.isascii() for char in text) - broken
    if good >= broken * GOOD_PER_BROKEN:  # damaged UTF-8
        return text
    score, encoding = detect_legacy_encoding(data)
    is_east_asian = score >= PLAUSIBLE_SCORE and encoding != "cp1252"
    if not is_east_asian and good + len(LATIN_IN_UTF8.findall(data)) >= broken * 2:  # in Latin, such pairs are rare
        return text
    sample = _take_sample(data)
    is_certain = has_only_signs(sample) if encoding == "cp1252" else score >= CERTAIN_SCORES.get(encoding, 0.7)
    alphabet = encoding if is_certain else _detect_alphabet(sample)
    if alphabet != "windows-1252" or encoding == "cp1252" or not _has_long_runs(sample):
        encoding = alphabet
    elif not is_east_asian:
        return None
    text = data.decode(encoding, "replace") if encoding else ""
    return text if len(WRONG_CHAR.findall(text)) * GOOD_PER_BROKEN < len(text) else None


def _has_long_runs(sample: bytes) -> bool:
    """Return whether letters outside ASCII make long runs: not so in Latin."""
    return _score_text(sample.decode("cp1252", "replace"), "cp1252") < PLAUSIBLE_SCORE


def _detect_alphabet(sample: bytes) -> str:
    """Return the encoding of a text in an alphabet, or in Korean."""
    try:
        from chardetng_py import detect  # without wheels for some systems
    except ModuleNotFoundError:
        from charset_normalizer import from_bytes

        score, encoding = detect_legacy_encoding(sample)
        guess = from_bytes(sample).best() if score < PLAUSIBLE_SCORE else None
        return guess.encoding if guess else encoding if score > 0 else ""
    return str(detect(sample, allow_utf8=False))


def detect_legacy_encoding(data: bytes) -> tuple[float, str]:
    """Return the best score among the candidate encodings, and its encoding.

    A score is at most 1, and may be below 0.

    >>> detect_legacy_encoding("会議の資料です。".encode("euc_jp"))
    (1.0, 'euc_jp')
    >>> detect_legacy_encoding("Café à Genève".encode("latin-1"))
    (1.0, 'cp1252')
    """
    sample = _take_sample(data)
    scores: dict[str, float] = {}
    for encoding in CANDIDATE_ENCODINGS:
        decoder = codecs.getincrementaldecoder(encoding)("replace")  # drops half a character at the end
        scores[encoding] = _score_text(decoder.decode(sample), encoding)
    best = max(scores, key=scores.__getitem__)  # the first of equal scores
    return scores[best], best


def has_only_signs(sample: bytes) -> bool:
    """Return whether a Latin text is ASCII and signs such as £.

    Every encoding has letters in their place.
    """
    return all(char.isascii() or char in LATIN_SIGNS for char in sample.decode("cp1252", "replace"))


def _take_sample(data: bytes) -> bytes:
    """Return the bytes from the one before the first outside ASCII."""
    match = re.search(rb"[^\x00-\x7f]", data)
    start = max(match.start() - 1, 0) if match else 0
    return data[start : start + LEGACY_SAMPLE_BYTES]


def familiar_share(text: str) -> float:
    """Return the share of alphabetic or frequent characters.

    It is near 0 if the data is no text.
    """
    count = sum(ALPHABETIC.match(char) is not None or char in COMMON_KANJI or char in COMMON_HANZI for char in text)
    return count / len(text) if text else 0.0


def _score_text(text: str, encoding: str) -> float:
    weights: list[float] = []
    for run in NON_ASCII_RUN.finditer(text):
        context = text[max(run.start() - 1, 0) : run.end() + 1]
        weights += _latin_weights(run[0], context) if encoding == "cp1252" else _cjk_weights(run[0], context, encoding)
    return sum(weights) / len(weights) if weights else 0.0


def _latin_weights(run: str, context: str) -> list[float]:
    """Return the weights of a run read as Latin.

    Accented letters come by one or two, among plain ones. Cyrillic or Chinese read as Latin makes long runs.
    """
    letters = [char for char in run if char not in LATIN_SIGNS]
    if REPLACEMENT_CHAR in run:
        return [BROKEN_WEIGHT]
    if UNNATURAL_PAIR.search(context):
        return [0.0] * len(run)
    if not letters:
        return [0.5]
    return [float(len(letters) <= 2 and all(char.isalpha() for char in letters))] * len(letters)


def _cjk_weights(run: str, context: str, encoding: str) -> list[float]:
    if len(run) == 1 and context.replace(run, "").isalpha():
        return [0.0]  # `Ärger` in Big5 is one ideograph before `ger`
    return [_character_weight(char, encoding) for char in run if char not in CJK_PUNCTUATION] or [0.6]


def _character_weight(char: str, encoding: str) -> float:
    code = ord(char)
    if char == REPLACEMENT_CHAR:
        return BROKEN_WEIGHT
    if code in PRIVATE_USE:
        return -1.0
    if code in KANA:
        return float(encoding in ("cp932", "euc_jp"))
    if code in SYLLABLES:
        return 1.0 if char in COMMON_HANGUL else 0.3
    if code not in IDEOGRAPHS or encoding == "cp949":
        return 0.0
    common = COMMON_KANJI if encoding in ("cp932", "euc_jp") else COMMON_HANZI
    return 1.0 if char in common else 0.3
