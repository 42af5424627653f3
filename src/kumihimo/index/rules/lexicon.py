"""word lists -> whether a word is a name, and the type of a name."""

from __future__ import annotations


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words that belong to no name, even capitalised at a sentence start or in a heading.
STOP_WORDS = _word_set(
    """a an the this that these those there here it its he she they them their theirs his her hers him we us our ours
    you your yours i me my mine who whom whose which what when where why how and or but nor so yet if because
    although though while whereas unless until since as than whether once in on at by for from with without within
    into onto upon over under above below between among through throughout during before after against about around
    across along toward towards near beyond behind despite except per to via is are was were be been being am do
    does did done has have had having can could shall should would might must not no yes ok okay yeah yep nope hi
    hello hey oh ah um uh wow thanks please like yup gosh all any both each every either neither some such many
    much most more few fewer several other others another also however therefore thus hence moreover furthermore
    nevertheless nonetheless meanwhile instead otherwise indeed perhaps maybe very just only even still too again
    ever never always often then now later today tomorrow yesterday soon already else etc eg ie vs n't"""
)

# Words that are no name alone or with a number (`January 1960`), but may be part of one (`Sunday Times`).
NO_NAME_ALONE = _word_set(
    """january february march april may june july august september october november december will monday tuesday
    wednesday thursday friday saturday sunday jan feb mar apr jun jul aug sept sep oct nov dec mon tue wed thu fri
    sat sun am pm ad bc bce ce inc ltd llc llp plc corp gmbh co phd mr mrs ms miss dr prof sr jr mba tv ok ceo cto
    cfo coo vp president professor chapter figure table part section page episode volume no internet der die das
    ein eine und oder aber nicht mit von auf für er sie wir ich le les la un une et ou mais il elle nous vous dans
    sur avec pour par que qui el los las una con por para del"""
)

# Words that open sentences. They belong to no name if only a sentence start or a heading capitalises them.
SENTENCE_OPENERS = _word_set(
    """absolutely according actually additionally afterwards ago agreed ahead almost alone alongside alright
    altogether amazing amen anyone anything anyway apart apparently arguably aside asked awesome basically become
    becoming beginning beside besides better born btw built bye call called cause certain certainly clearly come
    coming compared consequently consider considered contrary correct currently day days definitely depending
    enough especially essentially everybody everyone everything everywhere evidently exact exactly finally find
    following formerly fortunately founded frankly frequently further generally get getting give given go god going
    gonna gosh got gotta having hmm honestly hopefully huh including increasingly initially inside interesting
    interestingly join just keep know largely lastly lately latest leave let like likely likewise located look
    looking lots made mainly make making maybe mean mostly nah named namely naturally nearly nobody none normally
    notably nowadays obviously occasionally officially opening originally particularly partly personally possibly
    presumably previous previously primarily probably provided quite rather read reading really recently regarding
    relatively remember respectively said saying says secondly see seen shortly similarly simply so-called somebody
    someone sometimes somewhat somewhere sorry specifically start starting stick subsequently suddenly supposedly
    surely surprisingly take taken taking tell thank thirdly together totally traditionally truly try twice
    typically ultimately unfortunately unlike unlikely used using usually various virtually wait want well went
    whatever whenever wherever whichever whoever widely will write written"""
)

# The same, but they may begin a name (`World War II`).
NOMINAL_OPENERS = _word_set(
    """audience best big children city common company cool critics curious data design development different earlier
    early easy education eight eighth eleven engineering example excellent fair family fans far fifth film fine
    first five four fourth future game games general good government great greater guess guys half happy hard hell
    help high historically history human imagine important kind language large last late least left less life
    little local long love machine main men middle modern money most music name nature new newer next nice nine
    ninth note nothing number numerous old older one ones open opposite order outside overall own part people place
    play plus possible power pretty prior put question questions quick real recent research result results right
    same scholars school science second section sense seven seventh show similar simple single six sixth small
    software something sort special step stories story strange students sure talk technology ten tenth terrific
    thing things think third thirty three time times true turn twelve twenty two type university use war water way
    ways week welcome whole women wonderful work working world worse wow wrong year years young"""
)

OPENER_SUFFIXES = ("ally", "ously", "ently", "antly", "ively", "ably", "ibly", "ing", "ed", "n't", "n’t")

PARTICLES = _word_set("""of the de la von van du del bin ibn al der den für et di da do dos""")

# Words that stay in small letters in titles of works and in expansions of acronyms.
LOWERCASE_WORDS = _word_set("a an of the and or for in on at to by with de la du des et für und")

# Words before a name. Courtesy titles are not part of the key, so that `Mr Kerrow` and `Kerrow` are one entity.
COURTESY_TITLES = _word_set(
    """mr mrs ms miss mx dr doctor prof professor sir madam mister herr frau monsieur madame señor señora signor"""
)
RANK_TITLES = _word_set(
    """captain capt colonel col general gen major lieutenant lt sergeant sgt admiral president chancellor king queen
    prince princess emperor empress duke duchess count countess baron baroness lord lady dame pope bishop
    archbishop cardinal saint father reverend rev rabbi imam senator sen governor gov mayor judge justice inspector
    detective uncle aunt tsar sultan"""
)
# Words before `of` and a name.
ROLE_NOUNS = _word_set(
    """ceo cto cfo coo president director chief head founder chairman professor vice officer editor dean"""
)
NAME_POSSESSORS = _word_set("""king queen prince women men people children master bachelor lady lord st saint""")

ORGANISATION_ENDS = _word_set(
    """inc ltd llc corp corporation company co plc gmbh university college institute school academy council committee
    commission agency association society foundation organization organisation union party bank group club
    orchestra church museum ministry department bureau court parliament league federation laboratory laboratories
    labs press airlines airways records studios team army navy trust fund board authority service services"""
)
ORGANISATION_STARTS = _word_set(
    """university institute bank ministry department council bureau school college academy church house museum league
    society association board office"""
)

# Patterns of units. In reverse order, `km/h` comes before `km`.
_UNITS = _word_set(
    """centimetres? centimeters? millimetres? millimeters? kilometres? kilometers? metres? meters? miles? yards? feet
    foot inch(?:es)? acres? hectares? kilograms? kilogrammes? kilos? grams? grammes? milligrams? tonnes? tons? pounds?
    ounces? lit(?:re|er)s? gallons? pints? degrees? volts? watts? kilowatts? megawatts? gigawatts? amps? hertz
    kilohertz megahertz gigahertz bytes? kilobytes? megabytes? gigabytes? terabytes? bits? pixels? knots? calories
    dollars? cents? euros? pence yen yuan rupees? francs? roubles? pesos? won percent percentage
    km² km2 km/h km cm² cm³ cm mm² mm m² m³ m/s m kg mg g ha lbs? lb oz ft mph rpm kWh MWh GWh kW MW GW kHz MHz GHz
    Hz KB MB GB TB °C °F K V W"""
)
UNITS = "|".join(sorted(_UNITS, reverse=True))
TIME_UNITS = "years?|months?|weeks?|days?|hours?|minutes?|seconds?|decades?|centuries|people|times"

# Japanese words of two or more kanji that are no names.
COMMON_JAPANESE = _word_set(
    """今日 昨日 明日 今年 昨年 来年 毎年 毎日 時間 時期 時代 時点 当時 当初 現在 過去 将来 未来 最近 最初 最後 最終
    同時 同年 同様 同士 場合 場所 自分 自身 自体 必要 問題 可能 不可能 以上 以下 以前 以後 以降 以外 以内 一般 一部
    一方 一時 一番 一種 一定 一人 一度 一旦 全体 全部 全員 全国 全域 他方 他人 多数 少数 大部分 大半 大量 半分 部分
    程度 程度以上 前後 前半 後半 前者 後者 前述 後述 上記 下記 次第 結果 原因 理由 目的 方法 手段 意味 内容 状態
    状況 条件 関係 影響 変化 特徴 性質 種類 名前 名称 呼称 別名 通称 正式 対象 存在 人間 人物 人々 男性 女性 子供
    大人 彼等 我々 皆様 自由 重要 主要 有名 特定 特別 特有 特殊 共通 独自 独特 非常 普通 通常 本来 実際 事実 上部
    下部 内部 外部 周辺 付近 中心 中央 中間 途中 期間 年間 年代 月間 週間 世紀 世界 国内 国外 国家 各地 各国 地域
    地方 地点 位置 方向 東西 比較 基本 基準 技術 活動 行動 行為 作業 作品 使用 利用 影響力 開始 終了 成立 発生 発展
    発見 登場 参加 設置 設定 導入 採用 構成 形成 説明 表現 理解 認識 意識 考慮 検討 判断 決定 確認 指摘 主張 要求
    要素 要因 役割 機能 能力 効果 価値 評価 数字 数値 最大 最小 最高 最低 増加 減少 拡大 縮小 上昇 低下 向上 維持
    継続 完成 完全 十分 多様 様々 色々 事件 事柄 物事 言葉 文字 相互 直接 間接 従来 単独 反面 反対 逆 模様 客様
    発表 近年 後年 双方 新規 具体 複数 傾向 項目 同社 同書 同国 同市 同地 同氏 同作 本作 本書 本人 当該 当地 当日
    前年 翌年 翌日 前日 直後 直前 事実上 年度 年末 年初 各種 各々 数年 数々 結果的 提供 実施 実現 存続 存在感 所属
    所有 担当 紹介 公開 公表 制作 製作 放送 放映 出演 出場 発売 販売 開催 開設 設立 創設 建設 廃止 中止 停止 移動
    移転 変更"""
)
# Chinese words that split a clause into pieces.
CHINESE_CUTS = _word_set(
    """因為 因为 由於 由于 所以 但是 但 不過 不过 雖然 虽然 如果 而且 並且 并且 以及 或者 或是 或 還有 还有 同時 同时
    後來 后来 然後 然后 此後 此后 之後 之后 之前 以後 以后 以前 其中 其他 其它 此外 另外 當時 当时 現在 现在 目前
    已經 已经 曾經 曾经 正在 開始 开始 成為 成为 認為 认为 表示 指出 發現 发现 提出 進行 进行 位於 位于 擁有 拥有
    具有 包括 包含 稱為 称为 稱作 称作 使用 利用 建立 舉行 举行 開創 开创 出現 出现 發生 发生 可以 可能 能夠 能够
    需要 必須 必须 應該 应该 沒有 没有 不是 不能 不同 許多 许多 很多 一些 一個 一个 一種 一种 一位 一座 一名 兩個
    两个 這個 这个 這些 这些 那些 自己 他們 他们 她們 她们 我們 我们 他 她 它 我 你 所有 所 通過 通过 透過 經過
    经过 根據 根据 按照 作為 作为 屬於 属于 關於 关于 對於 对于 直到 甚至 只有 只是 只 更 最 很 非常 十分 相當 相当
    比較 比较 主要 大量 部分 各種 各种 各 每 該 该 此 至 跟 又 且 則 则 若 雖 虽 因 如 個 个 著 着 已 曾 名為 名为
    後期 期間 另一方面 來自 来自 用於 用于 加上 協助 协助 形成 支持 決定 决定 控制 不 無法 无法 仍然 仍 時期 时期
    期间 年代 世紀 世纪 等等 分別 分别 共同 一起 一直 逐漸 逐渐 為了 为了 只要 無論 无论"""
)
# Names and words that contain such characters, and stay whole.
CHINESE_UNCUT = _word_set(
    """共和 和平 和約 和约 昭和 和歌 和尚 和服 和諧 和谐 緩和 缓和 自由 以色列 土耳其 埃及 首都 成都 京都 古都 都市
    都會 都会 將軍 将军 大將 大将 上將 上将 中將 中将 少將 少将 名將 名将 將領 将领 大使 天使 使徒 使館 使馆 使者
    成就 存在 有限 絕對 绝对 對手 对手 對象 对象 反對 反对 相對 相对 目的 的士 了解 為難 行為 行为 被動 被动 之江
    從事 从事 服從 服从 讓步 让步 給予 给予 把握 也門 也门 是非 與會 与会 參與 参与 及格 普及 涉及 其妙 由來 由来
    理由 因素 基因 原因 因特 如來 如来 若干 若望 個人 个人 個體 个体 著名 著作 著者 名著 土著 執著 不丹 不列顛
    不列颠 不動產 不动产 此地 因果 吉他 至上 冬至 且末 已知 曾祖 曾國藩 曾国藩 我國 我国 自我 更新 更生 只因 最高
    最大 每日 每年 該隱 该隐 各國 各国 各地 所得 所有 研究所 場所 场所 診所 诊所 事務所 事务所 交易所 派出所 所長
    所长 即時 常州"""
)
COMMON_CHINESE = _word_set(
    """時間 时间 問題 问题 人們 人们 情況 情况 方面 方式 方法 地方 地區 地区 時代 时代 中間 中间 以上 以下 以內 以内
    以外 之間 之间 之一 之中 第一 第二 第三 同年 當年 当年 今天 今日 明天 昨天 今年 去年 結果 结果 原因 影響 影响
    關係 关系 重要 工作 生活 活動 活动 發展 发展 部份 全部 整個 整个 多數 多数 大部分 一部分 一般 一樣 一样 這裡
    这里 那裡 那里 內容 内容 作用 情形 過程 过程 目的 意義 意义 條件 条件 基礎 基础 傳統 传统 現代 现代 最後 最后
    開發 开发 研究 世界 國家 国家 社會 社会 人口 政府 事件 名字 名稱 名称 數量 数量 大約 大约 約有 约有 左右 其餘
    其余 造成 導致 导致 負責 负责 獲得 获得 成立 加入 參加 参加 受到 得到 達到 达到 帶來 带来 變成 变成 不久 隨後
    随后 隨即 随即 不僅 不仅 不但 不少 眾多 众多 多次 兩人 两人 三人 二人 一人 公元 公元前 西元 西元前 首都 當地
    当地 相距 相同 取得 宣布 引發 引发 同意 時候 时候 地位 萬人 万人 多萬 多万 特別 特别 成功 早期 晚期 全國 全国
    出版 作品 中心 發明 发明 發行 发行 專業 专业 解散 忽視 忽视 雙方 双方 我國 我国 各國 各国 各地 所得 最高 最大
    每日 每年 存在 了解 從事 从事 參與 参与 因素 個人 个人 著名 相對 相对 絕對 绝对 反對 反对 理由 行為 行为 普及
    涉及 給予 给予 若干 已知 加上 距離 距离"""
)
