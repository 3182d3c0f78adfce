//! Where marks are put into a client's string (marks.rs says why, and tries the ways in turn).

use crate::dialect;
use crate::special::{Spellings, Splitter};
use crate::tokenizer::Marks;
use ahash::AHashSet;
use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::Value as Json;
use std::sync::OnceLock;

/// At which ends of a string marks stand.
#[derive(Clone, Copy, PartialEq)]
pub enum Edges {
    All,
    /// Where a control token could end at its head or begin at its tail.
    Border,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Way {
    Everywhere,
    Places(Edges),
    Tokens { quote_named: bool },
}

impl Way {
    /// Marks so few that the control tokens the template does not name are not believed.
    pub fn weak(self) -> bool {
        !matches!(self, Way::Everywhere | Way::Places(Edges::All))
    }
}

/// The string literals of a template, which it may look for in a client's string or take out of it.
struct Literals {
    aho: Option<AhoCorasick>,
    /// Whether a control token could end at the literal's head, or begin at its tail.
    border: Vec<(bool, bool)>,
}

/// The longest literal that is left whole, in bytes, and how many are.
const LITERAL: usize = 256;
const LITERALS: usize = 4096;

/// What a template says, read with the control tokens of one vocabulary.
pub struct Wording {
    /// The words of the source without the control tokens in it: the template's own.
    words: AHashSet<Box<str>>,
    literals: OnceLock<Literals>,
}

impl Wording {
    pub fn new(splitter: &Splitter, source: &str) -> Self {
        let (mut words, mut from) = (AHashSet::new(), 0);
        for (a, b) in splitter.control_in(source) {
            words.extend(parts(&source[from..a]).map(Box::from));
            from = b;
        }
        words.extend(parts(&source[from..]).map(Box::from));
        Wording { words, literals: OnceLock::new() }
    }
}

/// What there is to know about the control tokens and the template.
pub struct Plan<'a> {
    pub splitter: &'a Splitter,
    pub source: &'a str,
    pub wording: &'a Wording,
    pub own: &'a [(&'static str, String)],
    pub known: &'a Spellings,
    pub marks: Marks,
}

impl Plan<'_> {
    /// The document with marks in its strings and keys.
    pub fn document(&self, way: Way, v: &Json) -> Json {
        match v {
            Json::String(s) => Json::String(self.string(way, s)),
            Json::Array(a) => Json::Array(a.iter().map(|x| self.document(way, x)).collect()),
            Json::Object(m) => {
                Json::Object(m.iter().map(|(k, x)| (self.string(way, k), self.document(way, x))).collect())
            }
            other => other.clone(),
        }
    }

    fn string(&self, way: Way, s: &str) -> String {
        // A word the template itself uses (a role, a type, a field) is the protocol's, not the client's: it may be
        // compared with, and `'<|' + role + '|>'` is meant.
        if s.is_empty() || (is_word(s) && self.wording.words.contains(s)) {
            return s.to_string();
        }
        let (mut out, quote_named) = match way {
            Way::Everywhere => (self.everywhere(s), false),
            Way::Places(edges) => (self.places(s, edges), true),
            Way::Tokens { quote_named } => (s.to_string(), quote_named),
        };
        // Parting one token may leave a shorter one whole, so go on until none is found. Every round shortens what is
        // left of each, so there are few.
        while let Some(next) = self.part(&out, quote_named) {
            out = next;
        }
        out
    }

    /// Marks around every character. White space at the ends is left as it is, for it may be trimmed.
    fn everywhere(&self, s: &str) -> String {
        let (head, tail) = if self.known.spaced { (0, s.len()) } else { ends(s) };
        let mut out = String::with_capacity(s.len() * 5 + 4);
        out.push_str(&s[..head]);
        if head < tail {
            out.push(self.marks.brk);
        }
        for c in s[head..tail].chars() {
            out.push(c);
            out.push(self.marks.brk);
        }
        out.push_str(&s[tail..]);
        out
    }

    fn places(&self, s: &str, edges: Edges) -> String {
        let (head, tail) = ends(s);
        let mut at: Vec<usize> = Vec::new();
        for (i, c) in s.char_indices() {
            if self.known.last.contains(&c) {
                at.push(i);
            }
            if self.known.first.contains(&c) {
                at.push(i + c.len_utf8());
            }
        }
        let (begin, end) = if edges == Edges::All { (true, true) } else { self.border(s) };
        if begin {
            at.push(head);
        }
        if end {
            at.push(tail);
        }
        self.spare_literals(s, (head, tail), &mut at);
        at.sort_unstable();
        at.dedup();
        let mut out = String::with_capacity(s.len() + 4 * at.len());
        let mut from = 0;
        for i in at {
            out.push_str(&s[from..i]);
            out.push(self.marks.brk);
            from = i;
        }
        out.push_str(&s[from..]);
        out
    }

    /// Takes marks out of the template's literals in s and puts them around those, beyond white space, instead. A literal
    /// at an end of s stands there without a mark, so that the template finds it (`startswith`).
    fn spare_literals(&self, s: &str, (head, tail): (usize, usize), at: &mut Vec<usize>) {
        let literals = self.wording.literals.get_or_init(|| self.literals());
        let Some(aho) = &literals.aho else {
            return;
        };
        let found: Vec<_> = aho.find_iter(s).collect();
        if found.is_empty() {
            return;
        }
        // Both are in order, so one pass does.
        at.sort_unstable();
        let mut next = found.iter().peekable();
        at.retain(|&i| {
            while next.peek().is_some_and(|m| m.end() <= i) {
                next.next();
            }
            !next.peek().is_some_and(|m| m.start() < i)
        });
        for m in found {
            let (begins, finishes) = literals.border[m.pattern().as_usize()];
            let before = s[..m.start()].trim_end().len();
            let after = s.len() - s[m.end()..].trim_start().len();
            if m.start() > head {
                at.push(before.max(head));
            } else if !begins {
                at.retain(|&i| i > m.start());
            }
            if m.end() < tail {
                at.push(after.min(tail));
            } else if !finishes {
                at.retain(|&i| i < m.end());
            } else {
                at.push(m.end());
            }
        }
    }

    fn literals(&self) -> Literals {
        let mut all = Vec::new();
        dialect::each_literal(self.source, &mut |s| {
            if s.len() > 1 && s.len() <= LITERAL && all.len() < LITERALS && !s.trim().is_empty() {
                all.push(s);
            }
        });
        all.sort_unstable();
        all.dedup();
        // A control token in a literal keeps a mark behind it: one in front of it must not pass over what follows.
        let border = |s: &String| {
            let (head, tail) = self.border(s);
            (head, tail || !self.splitter.control_in(s).is_empty())
        };
        let aho = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&all).ok();
        Literals { border: all.iter().map(border).collect(), aho: aho.filter(|_| !all.is_empty()) }
    }

    /// Whether a control token could end at the head of s or begin at its tail together with other text.
    fn border(&self, s: &str) -> (bool, bool) {
        let known = self.known;
        if s.is_empty() || known.forward.is_empty() {
            return (false, false);
        }
        let mut back = s.char_indices().map(|(i, c)| i + c.len_utf8()).take_while(|&i| i < known.longest);
        let starts = back.any(|i| {
            let back: String = s[..i].chars().rev().collect();
            proper_prefix(&known.backward, &back)
        });
        let mut tail = s.char_indices().rev().map(|(i, _)| i).take_while(|&i| s.len() - i < known.longest);
        let ends = tail.any(|i| proper_prefix(&known.forward, &s[i..]));
        let inside = s.len() < known.longest && known.inside(s);
        (starts || inside, ends || inside)
    }

    fn named(&self, token: &str) -> bool {
        self.source.contains(token)
    }

    /// Quotes the control tokens that are neither in the template's source nor made of its words.
    pub fn quote_strange(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len() + 16);
        let (mut from, mut strange) = (0, ahash::AHashMap::new());
        for (a, b) in self.splitter.control_in(text) {
            let token = &text[a..b];
            let strange = *strange.entry(token).or_insert_with(|| {
                !self.named(token)
                    && !self.own.iter().any(|(_, t)| t == token)
                    && !parts(token).all(|w| w.chars().all(|c| c.is_ascii_digit()) || self.wording.words.contains(w))
            });
            if strange && !text[..a].ends_with(self.marks.quote) {
                out.push_str(&text[from..a]);
                out.push(self.marks.quote);
                from = a;
            }
        }
        out.push_str(&text[from..]);
        out
    }

    /// Marks every control token in s that is not quoted yet; None if there is none.
    fn part(&self, s: &str, quote_named: bool) -> Option<String> {
        let mut out = String::new();
        let mut from = 0;
        for (a, b) in self.splitter.control_in(s) {
            if s[..a].ends_with(self.marks.quote) {
                continue;
            }
            let first = s[a..].chars().next().map_or(0, char::len_utf8);
            let quoted = (quote_named && self.named(&s[a..b])) || a + first == b;
            let at = if quoted { a } else { a + first };
            out.push_str(&s[from..at]);
            out.push(if quoted { self.marks.quote } else { self.marks.brk });
            from = at;
        }
        if from == 0 && out.is_empty() {
            return None;
        }
        out.push_str(&s[from..]);
        Some(out)
    }
}

/// Where s begins and ends, white space left out.
fn ends(s: &str) -> (usize, usize) {
    let head = s.len() - s.trim_start().len();
    (head, s.trim_end().len().max(head))
}

fn proper_prefix<S: AsRef<str>>(sorted: &[S], start: &str) -> bool {
    let at = sorted.partition_point(|s| s.as_ref() <= start);
    sorted.get(at).is_some_and(|s| s.as_ref().starts_with(start))
}

fn word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_word(s: &str) -> bool {
    s.chars().all(word)
}

fn parts(s: &str) -> impl Iterator<Item = &str> {
    s.split(|c| !word(c)).filter(|w| !w.is_empty())
}
