#!/usr/bin/env python3
"""The texts that tokenizers are compared on: small() is many short ones, large() is 1,000,000 bytes of prose.

corpus.py FILE      writes large() to FILE and prints its sha256
"""

import hashlib
import sys

import families

FOLDER = "/usr/share/common-licenses/"
FILES = [
    "Apache-2.0",
    "Artistic",
    "BSD",
    "CC0-1.0",
    "GFDL-1.2",
    "GFDL-1.3",
    "GPL-1",
    "GPL-2",
    "GPL-3",
    "LGPL-2",
    "LGPL-2.1",
    "LGPL-3",
    "MPL-1.1",
    "MPL-2.0",
]
LARGE = 1_000_000
LOWER, UPPER = bytes(range(97, 123)), bytes(range(65, 91))
# The files are ASCII and together about 237 kB; each pass over them changes bytes one for one.
PASSES = [
    bytes.maketrans(b"", b""),
    bytes.maketrans(b"\n", b" "),
    bytes.maketrans(LOWER, UPPER),
    bytes.maketrans(LOWER, LOWER[13:] + LOWER[:13]),
    bytes.maketrans(UPPER, LOWER),
]


def large():
    files = b"".join(open(FOLDER + name, "rb").read() for name in FILES)
    return b"".join(files.translate(table) for table in PASSES)[:LARGE].decode()


WRITTEN = [
    # English, contractions, quotes, dashes
    "Hello, world!",
    " leading space",
    "trailing space ",
    "I'm sure they'll say we've what it's; DON'T, I'D, o'clock",
    "“Curly” ‘quotes’ – en, — em… and a soft\u00adhyphen",
    "e.g. 3.14, 1,000,000 and 1st/2nd; A1B22C333d4444",
    "naïve façade coöperate Ångström Œuvre ſtraße ﬁne",
    "cafe\u0301 vs caf\u00e9",
    "https://example.org/a?b=c&d=%20#frag",
    # white space
    "",
    " ",
    "  ",
    "   ",
    "\n",
    "\n\n",
    "\n\n\n \n",
    "\t",
    "\t\t\tx",
    " \n ",
    "a  b   c    d     e",
    "x\r\ny\r\n\r\nz\rw",
    "tabs\tand\t\ttabs",
    " " * 17 + "x" + " " * 40,
    "\n" * 33,
    "no-break\u00a0space, thin\u2009space, ideographic\u3000end",
    "line\u2028separator paragraph\u2029separator",
    "zero\u200bwidth\u200djoiner\u200cnon\ufeffbom",
    # numbers
    "0",
    "12345678901234567890",
    "1 22 333 4444\n55555\n\n666666",
    "٠١٢٣٤٥٦٧٨٩ ०१२३४५६७८९ ０１２３ ¼½¾ ⅷ ²³ ①②",
    "-1e-10 0xDEADBEEF 0b1010",
    # code
    "def fibonacci(n):\n    if n < 2:\n        return n\n    return fibonacci(n - 1) + fibonacci(n - 2)\n",
    '#include <stdio.h>\n\nint main(int argc, char **argv)\n{\n\tprintf("%d\\n", argc); /* why */\n\treturn 0;\n}\n',
    '{"a": [1, 2.5, -3e8, null, true], "b": {"c": "d\\u00e9\\n"}}',
    '<div class="x"><p>text</p><br/></div>\n<!-- no -->',
    "SELECT * FROM t WHERE a >= 10 AND b != 'x' ORDER BY c;",
    'fn main() { let x: Vec<&str> = vec!["a"]; x.iter().map(|s| s.len()); }',
    'for i in $(seq 1 10); do echo "$i" >> /tmp/out 2>&1; done',
    "a=>b!=c==d&&e||f<<2>>3; x?.y ?? z; `t${u}v`; @decorator #hash $var",
    "camelCaseName snake_case_name SCREAMING_CASE kebab-case-name _private __init__",
    "\\frac{a}{b} \\sum_{i=0}^{n} x_i^2 $E=mc^2$",
    # scripts
    "你好，世界！今天天气怎么样？",
    "吾輩は猫である。名前はまだ無い。カタカナ ﾊﾝｶｸ",
    "안녕하세요 세계 \u1112\u1161\u11ab\u1100\u1173\u11af",
    "Привет, мир! Ёлка щётка",
    "Γειά σου Κόσμε ΆΈΉ",
    "مرحبا بالعالم، كيف الحال؟ السَّلامُ",
    "שלום עולם בְּרֵאשִׁית",
    "नमस्ते दुनिया, क्षत्रिय ज्ञान श्री",
    "வணக்கம் உலகம்",
    "สวัสดีชาวโลก กำลังทดสอบ",
    "ສະບາຍດີ ၵမ្ពុជា ខ្មែរ",
    "Xin chào thế giới, tiếng Việt có dấu",
    "İstanbul'da ığdır şğçö",
    "ქართული հայերեն አማርኛ",
    "𐍈𐌰𐌽 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟘𝟙𝟚 𠮷野家",
    "mixed 中文 and English和日本語テキスト123",
    "ꙮ ᚠᚢᚦ ⠓⠑⠇⠇⠕ ‰ № ™ ℃ ∑∫√∞≠≤ ←→⇒ █▓▒░ ─┼│",
    # emoji
    "😀",
    "👍🏽 👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇯🇵 ❤️ 1️⃣",
    "text😂text 🤖🔥🚀!!!",
    "👨🏿‍🚀👩🏻‍❤️‍💋‍👨🏼",
    # control characters and the like
    "".join(chr(c) for c in range(1, 32)),
    "a\0b\0\0c",
    "\x7f\x80\x85\x9f",
    "\ufffd\ufffe\U0010fffd\ue000",
    "a\u0300\u0301\u0302\u0303\u0304b",
    "\u202eright to left\u202c",
    # special tokens of both models, and near misses
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
    "<|endoftext|>",
    "a<|im_end|>b <|im_end|> c",
    "<|im_start|",
    "<|im_start|><|im_end|><|endoftext|>",
    "<repo_name>x<file_sep>y<jupyter_code>z<empty_output>",
    "<bos><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n",
    "<eos><pad><unk><mask>",
    "x <bos> y<eos>z",
    "<unused0><unused99> [multimodal] <start_of_image><end_of_image>",
    "<0x0A><0xE2>",
    "\u2581under\u2581\u2581score\u2581",
    "</s><s>[INST] x [/INST]",
    "<table><tr><td>a</td></tr></table><h1>t</h1><blockquote><code>c</code><strong>s</strong><em>e</em><ul><li>l</li></ul>",
    "&lt;|im_start|&gt;",
    # long and repetitive
    "a" * 300,
    "ab" * 150,
    "\u00e9" * 65,
    "=" * 80 + "\n" + "-" * 80 + "\n" + "*" * 79,
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
    "pneumonoultramicroscopicsilicovolcanoconiosis antidisestablishmentarianism",
    "." * 50 + "!" * 50 + "?" * 50 + "…" * 20,
    "the the the  the   the\tthe\nthe",
]
# What the made-up texts draw from: first and last code point, how often.
RANGES = [
    (0x20, 0x7E, 8),
    (0x61, 0x7A, 12),
    (0x20, 0x20, 6),
    (0x30, 0x39, 3),
    (0x0A, 0x0A, 1),
    (0x01, 0x1F, 1),
    (0xA0, 0x17F, 3),
    (0x370, 0x3FF, 1),
    (0x400, 0x45F, 2),
    (0x5D0, 0x5EA, 1),
    (0x600, 0x6FF, 2),
    (0x900, 0x97F, 2),
    (0xE00, 0xE5B, 1),
    (0x300, 0x36F, 1),
    (0x2000, 0x206F, 1),
    (0x3041, 0x30FE, 2),
    (0x4E00, 0x9FA5, 4),
    (0xAC00, 0xD7A3, 2),
    (0x1F300, 0x1F64F, 2),
    (0x10000, 0x1FFFF, 1),
]


def drawn(number):
    """A text of 10 to 120 code points; runs of one range, so that words arise."""
    r = iter((families.draws(f"corpus {number}", 1024) + 1) / 2)
    bag = [x for x in RANGES for _ in range(x[2])]
    out, length = [], 10 + int(next(r) * 111)
    while len(out) < length:
        low, high, _ = bag[int(next(r) * len(bag))]
        for _ in range(1 + int(next(r) * 6)):
            out.append(chr(low + int(next(r) * (high - low + 1))))
    return "".join(out)


def small():
    return WRITTEN + [drawn(i) for i in range(60)]


if __name__ == "__main__":
    text = large().encode()
    with open(sys.argv[1], "wb") as f:
        f.write(text)
    print(hashlib.sha256(text).hexdigest())
