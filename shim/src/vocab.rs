//! What each id stands for: bytes, kind, and which ids end a turn.
//!
//! Kept as one blob with offsets, because a vocabulary of 262,144 strings would cost eight times its bytes otherwise.

/// Token kinds with GGUF's numbers.
pub(crate) const NORMAL: u8 = 1;
pub(crate) const UNKNOWN: u8 = 2;
pub(crate) const CONTROL: u8 = 3;
pub(crate) const USER_DEFINED: u8 = 4;
pub(crate) const UNUSED: u8 = 5;
pub(crate) const BYTE: u8 = 6;

pub(crate) const NONE: i32 = -1;

#[derive(Default)]
pub struct Vocab {
    blob: Vec<u8>,
    ends: Vec<u32>,
    pub kinds: Vec<u8>,
    pub longest: usize,
}

impl Vocab {
    pub fn with_capacity(n: usize) -> Self {
        Vocab { blob: Vec::with_capacity(n * 8), ends: Vec::with_capacity(n), kinds: Vec::with_capacity(n), longest: 0 }
    }

    pub fn push(&mut self, bytes: &[u8], kind: u8) {
        self.blob.extend_from_slice(bytes);
        self.ends.push(self.blob.len() as u32);
        self.kinds.push(kind);
        self.longest = self.longest.max(bytes.len());
    }

    pub fn shrink(&mut self) {
        self.blob.shrink_to_fit();
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn bytes(&self, id: usize) -> &[u8] {
        if id >= self.ends.len() {
            return &[];
        }
        let from = if id == 0 { 0 } else { self.ends[id - 1] as usize };
        &self.blob[from..self.ends[id] as usize]
    }

    pub fn kind(&self, id: usize) -> u8 {
        self.kinds.get(id).copied().unwrap_or(UNUSED)
    }

    pub fn is_special(&self, id: usize) -> bool {
        matches!(self.kind(id), CONTROL | UNKNOWN)
    }
}

/// The bytes of a piece of a SentencePiece-style vocabulary: `▁` stands for a space, `<0x0A>` for one byte.
pub fn spm_bytes(piece: &str, kind: u8, out: &mut Vec<u8>) {
    out.clear();
    if kind == BYTE {
        if let Some(b) = byte_of(piece) {
            out.push(b);
            return;
        }
    }
    if kind == CONTROL || kind == UNKNOWN {
        out.extend_from_slice(piece.as_bytes());
        return;
    }
    for part in piece.split_inclusive('\u{2581}') {
        match part.strip_suffix('\u{2581}') {
            Some(head) => {
                out.extend_from_slice(head.as_bytes());
                out.push(b' ');
            }
            None => out.extend_from_slice(part.as_bytes()),
        }
    }
}

/// `<0xHH>` as a byte.
pub fn byte_of(piece: &str) -> Option<u8> {
    let hex = piece.strip_prefix("<0x")?.strip_suffix('>')?;
    if hex.len() != 2 {
        return None;
    }
    u8::from_str_radix(hex, 16).ok()
}

/// GPT-2's printable stand-ins for bytes, both ways.
pub struct ByteLevel {
    pub to_char: [char; 256],
    from_char: [i16; 512],
}

impl ByteLevel {
    pub fn new() -> Self {
        let mut to_char = ['\0'; 256];
        let mut from_char = [-1i16; 512];
        let mut next = 256u32;
        for b in 0..256u32 {
            let printable = (33..=126).contains(&b) || (161..=172).contains(&b) || (174..=255).contains(&b);
            let c = if printable {
                b
            } else {
                next += 1;
                next - 1
            };
            to_char[b as usize] = char::from_u32(c).unwrap_or('\0');
            from_char[c as usize] = b as i16;
        }
        ByteLevel { to_char, from_char }
    }

    pub fn encode(&self, text: &str, out: &mut String) {
        out.clear();
        for b in text.bytes() {
            out.push(self.to_char[b as usize]);
        }
    }

    /// The bytes of a byte-level piece; characters that stand for no byte are taken as they are.
    pub fn decode(&self, piece: &str, out: &mut Vec<u8>) {
        out.clear();
        for c in piece.chars() {
            match self.from_char.get(c as usize) {
                Some(&b) if b >= 0 => out.push(b as u8),
                _ => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
    }
}

/// Spellings that end a turn in the models we know, whatever the file says (the list llama.cpp keeps, too).
const TURN_ENDS: &[&str] = &[
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
    "<|fim_pad|>",
    "<fim-pad>",
    "<fim_pad>",
    "<PAD>",
    "[PAD]",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<fim-repo>",
    "<REPO>",
    "<reponame>",
    "<|file_sep|>",
];

/// Finds the end-of-turn set. `named` are the ids the file itself calls EOS, EOT or EOM; `id_of` looks a spelling up.
/// Spellings become control tokens if the file called them normal, so that they stay out of replies.
pub fn turn_ends(vocab: &mut Vocab, named: &[i32], id_of: impl Fn(&str) -> Option<u32>) -> Vec<i32> {
    let mut set: Vec<i32> = named.iter().copied().filter(|&i| i >= 0 && (i as usize) < vocab.len()).collect();
    // Gemma 4 has an ordinary `</s>` for HTML.
    let plain_s = id_of("<|tool_response>").is_some();
    // In the Harmony and Solar formats `<|end|>` separates messages inside one reply.
    let harmony = id_of("<|call|>").is_some() && id_of("<|return|>").is_some();
    let solar = (id_of("<|call|>").is_some() || id_of("<|calls|>").is_some()) && id_of("<|flush|>").is_some();
    for &text in TURN_ENDS {
        if (text == "</s>" && plain_s) || (text == "<|end|>" && (harmony || solar)) {
            continue;
        }
        if let Some(id) = id_of(text) {
            set.push(id as i32);
            if matches!(vocab.kinds[id as usize], NORMAL | USER_DEFINED) {
                vocab.kinds[id as usize] = CONTROL;
            }
        }
    }
    set.sort_unstable();
    set.dedup();
    set
}
