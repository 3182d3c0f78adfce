//! Finds special tokens in text, apart from the tokenizer itself.
//!
//! One tokenizer without specials serves both trusted and untrusted text, because the splitting happens here: trusted
//! text is cut at control and user-defined tokens, untrusted text at user-defined ones only. Longest match at the
//! leftmost place, as the tokenizers library does it.

use crate::border::{fail, Res, FFWD_MODEL};
use ahash::AHashSet;
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

/// A special token as the vocabulary describes it.
#[derive(Clone)]
pub struct Special {
    pub id: u32,
    pub text: String,
    /// Control (and unknown) tokens are matched in trusted text only.
    pub control: bool,
    /// Swallow white space before or after the token.
    pub lstrip: bool,
    pub rstrip: bool,
    /// Not inside a word.
    pub single_word: bool,
}

pub enum Part<'a> {
    Text(&'a str),
    Token(u32),
}

struct Matcher {
    aho: Option<AhoCorasick>,
    which: Vec<u32>,
}

/// The control tokens' spellings, arranged for finding them by their parts.
pub struct Spellings {
    /// In order, and the same backwards: what a token begins and ends with.
    pub forward: Vec<String>,
    pub backward: Vec<String>,
    pub longest: usize,
    /// Their first and last characters.
    pub first: AHashSet<char>,
    pub last: AHashSet<char>,
    /// White space occurs in one.
    pub spaced: bool,
    /// Where the parts of `forward` begin, (which, byte), in the order of what stands there.
    suffixes: Vec<(u32, u32)>,
}

/// A control token longer than this is looked for whole only, not by its parts.
const LONGEST: usize = 256;

impl Spellings {
    fn new(mut forward: Vec<String>) -> Self {
        let first = forward.iter().filter_map(|s| s.chars().next()).collect();
        let last = forward.iter().filter_map(|s| s.chars().next_back()).collect();
        let spaced = forward.iter().any(|s| s.contains(char::is_whitespace));
        forward.retain(|s| s.len() <= LONGEST);
        forward.sort_unstable();
        let mut backward: Vec<String> = forward.iter().map(|s| s.chars().rev().collect()).collect();
        backward.sort_unstable();
        let mut suffixes: Vec<(u32, u32)> = Vec::new();
        for (which, s) in forward.iter().enumerate() {
            suffixes.extend(s.char_indices().map(|(i, _)| (which as u32, i as u32)));
        }
        suffixes.sort_unstable_by_key(|&(which, i)| &forward[which as usize][i as usize..]);
        let longest = forward.iter().map(String::len).max().unwrap_or(0);
        Spellings { forward, backward, longest, first, last, spaced, suffixes }
    }

    /// Whether a control token contains s.
    pub fn inside(&self, s: &str) -> bool {
        let suffix = |&(which, i): &(u32, u32)| &self.forward[which as usize][i as usize..];
        let at = self.suffixes.partition_point(|x| suffix(x) < s);
        self.suffixes.get(at).is_some_and(|x| suffix(x).starts_with(s))
    }
}

pub struct Splitter {
    /// No other splitter has it, nor will.
    pub serial: u64,
    spellings: OnceLock<Spellings>,
    specials: Vec<Special>,
    all: Matcher,
    words: Matcher,
    control: Matcher,
}

static SERIAL: AtomicU64 = AtomicU64::new(0);

/// Which specials count in a text.
#[derive(Clone, Copy, PartialEq)]
pub enum Match {
    All,
    UserDefined,
    Control,
}

impl Splitter {
    pub fn new(specials: Vec<Special>) -> Res<Self> {
        let all = Matcher::new(&specials, |_| true)?;
        let words = Matcher::new(&specials, |s| !s.control)?;
        let control = Matcher::new(&specials, |s| s.control)?;
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        Ok(Splitter { serial, spellings: OnceLock::new(), specials, all, words, control })
    }

    pub fn specials(&self) -> &[Special] {
        &self.specials
    }

    pub fn spellings(&self) -> &Spellings {
        self.spellings.get_or_init(|| {
            let control = |s: &&Special| s.control && !s.text.is_empty();
            Spellings::new(self.specials.iter().filter(control).map(|s| s.text.clone()).collect())
        })
    }

    fn matcher(&self, which: Match) -> &Matcher {
        match which {
            Match::All => &self.all,
            Match::UserDefined => &self.words,
            Match::Control => &self.control,
        }
    }

    /// Calls `each` for every part of `text` in order. A token right behind `quote` is left in its text.
    pub fn split<'a>(
        &self,
        text: &'a str,
        which: Match,
        quote: Option<char>,
        mut each: impl FnMut(Part<'a>) -> Res<()>,
    ) -> Res<()> {
        let m = self.matcher(which);
        let mut from = 0;
        if let Some(aho) = &m.aho {
            for hit in aho.find_iter(text) {
                let special = &self.specials[m.which[hit.pattern().as_usize()] as usize];
                // What an earlier token's rstrip swallowed cannot begin another token.
                if hit.start() < from || quote.is_some_and(|q| text[..hit.start()].ends_with(q)) {
                    continue;
                }
                if special.single_word && inside_word(text, hit.start(), hit.end()) {
                    continue;
                }
                let mut before = &text[from..hit.start()];
                if special.lstrip {
                    before = before.trim_end();
                }
                if !before.is_empty() {
                    each(Part::Text(before))?;
                }
                each(Part::Token(special.id))?;
                from = hit.end();
                if special.rstrip {
                    from = text.len() - text[from..].trim_start().len();
                }
            }
        }
        if from < text.len() {
            each(Part::Text(&text[from..]))?;
        }
        Ok(())
    }

    /// Byte ranges of the control tokens in `text`, leftmost longest.
    pub fn control_in(&self, text: &str) -> Vec<(usize, usize)> {
        match &self.control.aho {
            Some(aho) => aho.find_iter(text).map(|m| (m.start(), m.end())).collect(),
            None => Vec::new(),
        }
    }
}

impl Matcher {
    fn new(specials: &[Special], keep: impl Fn(&Special) -> bool) -> Res<Self> {
        let which: Vec<u32> = (0..specials.len() as u32)
            .filter(|&i| !specials[i as usize].text.is_empty() && keep(&specials[i as usize]))
            .collect();
        if which.is_empty() {
            return Ok(Matcher { aho: None, which });
        }
        let built = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(which.iter().map(|&i| specials[i as usize].text.as_bytes()));
        match built {
            Ok(aho) => Ok(Matcher { aho: Some(aho), which }),
            Err(e) => fail(FFWD_MODEL, format!("the special tokens cannot be indexed: {e}")),
        }
    }
}

fn inside_word(text: &str, from: usize, to: usize) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    text[..from].chars().next_back().is_some_and(word) || text[to..].chars().next().is_some_and(word)
}
