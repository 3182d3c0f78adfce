//! Keeps a client's text from becoming control tokens.
//!
//! A template mixes its own control tokens with the client's words, and its result is one string. To tell the two apart
//! afterwards, marks (code points that occur nowhere in the request) are put into the client's strings before rendering,
//! so that no control token with a client's character in it is found any more. A template may cut a client's string up or
//! delete from it, so marks stand wherever a token could come to begin or end, not only where one is spelled already.
//! They are taken out again before the text is encoded, as untrusted text.
//!
//! Marks must not change what the template does: a marked rendering counts only if, marks removed, it is the plain one.
//! A template that looks for words in a message would miss them with marks inside, so the ways of `WAYS` are tried one
//! after the other, the ones that prove more first. If none leaves the rendering as it was, or none proves that the
//! control tokens are the template's, the request is refused.

use crate::border::{fail, Res, FFWD_ARGUMENT, FFWD_TOO_LONG};
use crate::places::{Edges, Plan, Way};
use crate::special::Splitter;
use crate::strftime::Now;
use crate::template::{Rendering, Template};
use crate::tokenizer::{Marks, Tok};
use serde_json::Value as Json;

/// Strings and keys of one request. Each is looked at once for every way of marking.
pub const FFWD_LIMIT_STRINGS: usize = 1 << 16;

/// The ways of marking, in the order they are tried.
const WAYS: [Way; 5] = [
    // A mark around every character: whatever the template cuts out of a string brings one along.
    Way::Everywhere,
    // Around the first and last characters of control tokens and at the ends of strings, but not inside words that the
    // template may be looking for.
    Way::Places(Edges::All),
    // The same, but at the ends of strings only if a token could begin or end with them: for templates that count the
    // characters of an id.
    Way::Places(Edges::Border),
    // Only inside whole control tokens, or in front of those that the template names.
    Way::Tokens { quote_named: false },
    Way::Tokens { quote_named: true },
];

pub fn render(t: &Template, tok: &Tok, own: &[(&'static str, String)], doc: Json, now: Now) -> Res<Rendering> {
    let text = t.once(&doc, own, now)?;
    let spelled = Spelled::plain(&tok.splitter, &text);
    if spelled.0.is_empty() {
        return Ok(Rendering { text, marked: None, marks: None });
    }
    let mut strings = 0usize;
    each_string(&doc, &mut |_| strings += 1);
    if strings > FFWD_LIMIT_STRINGS {
        return fail(
            FFWD_TOO_LONG,
            format!("the request holds {strings} strings and keys, more than {FFWD_LIMIT_STRINGS}"),
        );
    }
    let Some(marks) = unused(&[&text, &t.source], &doc) else {
        return fail(FFWD_ARGUMENT, "the request uses every private code point");
    };
    let wording = t.wording(&tok.splitter);
    let plan = Plan {
        splitter: &tok.splitter,
        source: &t.source,
        wording: &wording,
        own,
        known: tok.splitter.spellings(),
        marks,
    };
    let mut sure: Option<Vec<String>> = None;
    let mut suspect = None;
    for way in WAYS {
        let Ok(mut marked) = t.once(&plan.document(way, &doc), own, now) else {
            continue;
        };
        let same = strip(&marked, marks) == text;
        if way.weak() {
            marked = plan.quote_strange(&marked);
        }
        let believed = Spelled::marked(&tok.splitter, &marked, marks);
        // What a way with many marks believes is the template's, even where the rendering is not the plain one. The
        // ways with few marks are held against that.
        let proven = match (&sure, way) {
            (_, Way::Everywhere | Way::Places(Edges::All)) => true,
            (Some(s), _) => believed.names() == *s,
            (None, Way::Places(_)) => true,
            (None, Way::Tokens { .. }) => false,
        };
        if !proven {
            suspect = suspect.or_else(|| believed.not_in(sure.as_deref().unwrap_or(&[])));
        }
        if sure.is_none() && !matches!(way, Way::Tokens { .. }) {
            sure = Some(believed.names());
        }
        if same && proven {
            // Nothing in the text is a token that is not meant: no marks are needed.
            let needed = believed != spelled;
            return Ok(Rendering { text, marked: needed.then_some(marked), marks: needed.then_some(marks) });
        }
    }
    let mut client = None;
    each_string(&doc, &mut |s| {
        client = client.take().or_else(|| tok.splitter.control_in(s).first().map(|&(a, b)| s[a..b].to_string()))
    });
    let token = client.or(suspect).or_else(|| spelled.0.first().map(|s| s.1.clone())).unwrap_or_default();
    fail(
        FFWD_ARGUMENT,
        format!(
            "a message holds the control token {token:?} or a part of it, which the chat template takes for markup"
        ),
    )
}

pub fn strip(text: &str, marks: Marks) -> String {
    text.replace([marks.brk, marks.quote], "")
}

/// The control tokens of a text: where they begin, marks not counted, and their spelling.
#[derive(PartialEq)]
struct Spelled(Vec<(usize, String)>);

impl Spelled {
    fn plain(splitter: &Splitter, text: &str) -> Self {
        Spelled(splitter.control_in(text).into_iter().map(|(a, b)| (a, text[a..b].to_string())).collect())
    }

    /// Those of a marked text that are not quoted.
    fn marked(splitter: &Splitter, text: &str, marks: Marks) -> Self {
        let (mut found, mut skipped, mut from) = (Vec::new(), 0, 0);
        for (a, b) in splitter.control_in(text) {
            skipped += text[from..a].chars().filter(|&c| c == marks.brk || c == marks.quote).count();
            from = a;
            if !text[..a].ends_with(marks.quote) {
                found.push((a - skipped * marks.brk.len_utf8(), text[a..b].to_string()));
            }
        }
        Spelled(found)
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().map(|s| s.1.clone()).collect()
    }

    fn not_in(&self, known: &[String]) -> Option<String> {
        self.0.iter().map(|s| &s.1).find(|s| !known.contains(s)).cloned()
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

/// Two private code points that occur nowhere. Both take four bytes.
fn unused(texts: &[&str], doc: &Json) -> Option<Marks> {
    let mut used = ahash::AHashSet::new();
    let mut note = |s: &str| used.extend(s.chars().filter(|&c| c >= '\u{F0000}'));
    texts.iter().for_each(|t| note(t));
    each_string(doc, &mut note);
    let mut free = ('\u{F0000}'..='\u{FFFFD}').filter(|c| !used.contains(c));
    Some(Marks { brk: free.next()?, quote: free.next()? })
}
