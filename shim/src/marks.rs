//! Keeps a client's text from becoming control tokens.
//!
//! A template mixes its own control tokens with the client's words, and its result is one string. To tell the two apart
//! afterwards, a mark, a code point that occurs nowhere in the request, is put into the client's strings before
//! rendering: inside every control token spelled there, so that the splitter no longer finds it, and at either end of a
//! string that a control token could begin or end with, so that none is put together across a border. The marks are
//! taken out again before the text is encoded, as untrusted text.
//!
//! Marks must not change what the template does. Every marked rendering is compared, marks removed, with the plain one.
//! Where they differ, because the template itself looks for such a token (`'</think>' in content`), the tokens the
//! template names get a quote in front of them instead of a mark inside; the splitter passes over a quoted token. If no
//! way of marking leaves the rendering as it was, the request is refused.

use crate::border::{fail, Res, FFWD_ARGUMENT};
use crate::special::{Spellings, Splitter};
use crate::template::{Rendering, Template};
use crate::tokenizer::{Marks, Tok};
use serde_json::Value as Json;

pub fn render(t: &Template, tok: &Tok, own: &[(&'static str, String)], doc: Json, unix: i64) -> Res<Rendering> {
    let text = t.once(&doc, own, unix)?;
    let plan = Plan::new(&tok.splitter, &t.source, own);
    let mut found = Found::default();
    each_string(&doc, &mut |s| plan.look(s, &mut found));
    if found.tokens.is_empty() && !found.borders {
        return Ok(Rendering { text, marked: None, marks: None });
    }
    let Some(marks) = unused(&[&text, &t.source], &doc) else {
        return fail(FFWD_ARGUMENT, "the request uses every private code point");
    };
    for (quote_named, borders) in [(false, true), (true, true), (false, false), (true, false)] {
        if (quote_named && found.tokens.is_empty()) || (!borders && !found.borders) {
            continue;
        }
        let way = Way { plan: &plan, marks, quote_named, borders };
        let Ok(mut marked) = t.once(&way.document(&doc), own, unix) else {
            continue;
        };
        if strip(&marked, marks) != text {
            continue;
        }
        if !borders {
            marked = plan.quote_unnamed(&marked, marks);
        }
        return Ok(Rendering { text, marked: Some(marked), marks: Some(marks) });
    }
    let token = found.tokens.first().map_or("", |s| s.as_str());
    fail(
        FFWD_ARGUMENT,
        format!("a message contains the control token {token:?}, which the chat template takes for markup"),
    )
}

pub fn strip(text: &str, marks: Marks) -> String {
    text.replace([marks.brk, marks.quote], "")
}

/// What the client's strings hold that needs a mark.
#[derive(Default)]
struct Found {
    tokens: Vec<String>,
    borders: bool,
}

/// What there is to know about the control tokens and the template.
struct Plan<'a> {
    splitter: &'a Splitter,
    source: &'a str,
    /// The source without the control tokens in it: where the template's own words are looked up.
    words: String,
    own: &'a [(&'static str, String)],
    spellings: &'a Spellings,
}

impl<'a> Plan<'a> {
    fn new(splitter: &'a Splitter, source: &'a str, own: &'a [(&'static str, String)]) -> Self {
        let (mut words, mut from) = (String::with_capacity(source.len()), 0);
        for (a, b) in splitter.control_in(source) {
            words.push_str(&source[from..a]);
            words.push(' ');
            from = b;
        }
        words.push_str(&source[from..]);
        Plan { splitter, source, words, own, spellings: splitter.spellings() }
    }

    fn look(&self, s: &str, found: &mut Found) {
        for (a, b) in self.splitter.control_in(s) {
            if !found.tokens.iter().any(|t| t == &s[a..b]) {
                found.tokens.push(s[a..b].to_string());
            }
        }
        found.borders |= self.border(s) != (false, false);
    }

    /// Whether a control token could end at the head of s or begin at its tail together with other text.
    fn border(&self, s: &str) -> (bool, bool) {
        let known = self.spellings;
        if s.is_empty() || known.forward.is_empty() {
            return (false, false);
        }
        let head = s.char_indices().map(|(i, c)| i + c.len_utf8()).take_while(|&i| i < known.longest);
        let mut starts = head.into_iter().any(|i| {
            let back: String = s[..i].chars().rev().collect();
            proper_prefix(&known.backward, &back)
        });
        let tail = s.char_indices().rev().map(|(i, _)| i).take_while(|&i| s.len() - i < known.longest);
        let mut ends = tail.into_iter().any(|i| proper_prefix(&known.forward, &s[i..]));
        if s.len() < known.longest && known.joined.contains(s) {
            (starts, ends) = (true, true);
        }
        // A word the template itself uses (a role, a type, a field) is the protocol's, not the client's: it may be
        // compared with, and `'<|' + role + '|>'` is meant.
        if (starts || ends) && is_word(s) && has_word(&self.words, s) {
            return (false, false);
        }
        (starts, ends)
    }

    fn named(&self, token: &str) -> bool {
        self.source.contains(token)
    }

    /// Without marks at the borders, only control tokens that stand in the template's source are believed.
    fn quote_unnamed(&self, text: &str, marks: Marks) -> String {
        let mut out = String::with_capacity(text.len() + 16);
        let mut from = 0;
        for (a, b) in self.splitter.control_in(text) {
            let token = &text[a..b];
            if !self.named(token) && !self.own.iter().any(|(_, t)| t == token) {
                out.push_str(&text[from..a]);
                out.push(marks.quote);
                from = a;
            }
        }
        out.push_str(&text[from..]);
        out
    }
}

fn proper_prefix<S: AsRef<str>>(sorted: &[S], start: &str) -> bool {
    let at = sorted.partition_point(|s| s.as_ref() <= start);
    sorted.get(at).is_some_and(|s| s.as_ref().starts_with(start))
}

fn is_word(s: &str) -> bool {
    s.chars().all(|c| c.is_alphanumeric() || c == '_')
}

fn has_word(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(i, _)| {
        !text[..i].chars().next_back().is_some_and(part) && !text[i + word.len()..].chars().next().is_some_and(part)
    })
}

/// One way of marking.
struct Way<'a> {
    plan: &'a Plan<'a>,
    marks: Marks,
    quote_named: bool,
    borders: bool,
}

impl Way<'_> {
    fn document(&self, v: &Json) -> Json {
        match v {
            Json::String(s) => Json::String(self.string(s)),
            Json::Array(a) => Json::Array(a.iter().map(|x| self.document(x)).collect()),
            Json::Object(m) => Json::Object(m.iter().map(|(k, x)| (self.string(k), self.document(x))).collect()),
            other => other.clone(),
        }
    }

    fn string(&self, s: &str) -> String {
        let (head, tail) = if self.borders { self.plan.border(s) } else { (false, false) };
        let mut out = s.to_string();
        // Parting one token may leave a shorter one whole, so go on until none is found. Every round shortens what is
        // left of each, so there are few.
        while let Some(next) = self.part(&out) {
            out = next;
        }
        if head {
            out.insert(0, self.marks.brk);
        }
        if tail {
            out.push(self.marks.brk);
        }
        out
    }

    /// Marks every control token in s that is not quoted yet; None if there is none.
    fn part(&self, s: &str) -> Option<String> {
        let mut out = String::new();
        let mut from = 0;
        for (a, b) in self.plan.splitter.control_in(s) {
            if s[..a].ends_with(self.marks.quote) {
                continue;
            }
            let first = s[a..].chars().next().map_or(0, char::len_utf8);
            let quoted = (self.quote_named && self.plan.named(&s[a..b])) || a + first == b;
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

fn each_string(v: &Json, f: &mut dyn FnMut(&str)) {
    match v {
        Json::String(s) => f(s),
        Json::Array(a) => a.iter().for_each(|x| each_string(x, f)),
        Json::Object(m) => m.iter().for_each(|(k, x)| {
            f(k);
            each_string(x, f);
        }),
        _ => {}
    }
}

/// Two private code points that occur nowhere.
fn unused(texts: &[&str], doc: &Json) -> Option<Marks> {
    let mut used = ahash::AHashSet::new();
    let mut note = |s: &str| used.extend(s.chars().filter(|&c| c >= '\u{F0000}'));
    texts.iter().for_each(|t| note(t));
    each_string(doc, &mut note);
    let mut free = ('\u{F0000}'..='\u{FFFFD}').filter(|c| !used.contains(c));
    Some(Marks { brk: free.next()?, quote: free.next()? })
}
