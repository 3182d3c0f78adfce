//! Compiles grammars of all kinds.

use crate::border::{catch, fail, Fail, Res, FFWD_ARGUMENT, FFWD_BUG, FFWD_TOO_LONG, FFWD_UNSUPPORTED};
use crate::counted::held;
use crate::tokenizer::Tok;
use crate::tokenv::Factory;
pub use crate::tokenv::limits;
use crate::{gbnf, lark, schema};
use ahash::AHashMap;
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::SimpleVob;
use llguidance::{regex_to_lark, Matcher, ParserFactory};
use serde_json::{json, Value};
use std::sync::{Arc, Mutex, OnceLock};

#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Json,
    Schema,
    Regex,
    Choice,
    Lark,
    Gbnf,
}

pub struct Source {
    pub kind: Kind,
    pub text: Vec<u8>,
    pub after: Option<Vec<u8>>,
    pub relax: bool,
    /// Compile on the calling thread, which has STACK bytes.
    pub here: bool,
}

/// The text that ends the free part of a reply is at most this long.
const AFTER: usize = 256;

/// Compiling recurses as deep as a schema does; this much stack is enough for all that the limits let through.
pub const STACK: usize = 64 << 20;

/// White space between the parts of a JSON text: what models write, but not without end.
const SPACE: &str = r"[ \t]{1,8}|[ \t]{0,2}(\r?\n){1,2}[ \t]{0,64}";

/// Where a reply stops being free.
pub struct After {
    /// A control token; or
    pub control: Option<u32>,
    /// a text, matched as Knuth, Morris and Pratt do it: a state is how many of its bytes have come.
    text: Vec<u8>,
    back: Vec<u32>,
    /// For each state the ids in which the text ends and is followed by what the grammar does not begin with.
    denied: Vec<Vec<u32>>,
}

impl After {
    fn new(tok: &Tok, text: &[u8]) -> Res<Self> {
        if text.is_empty() || text.len() > AFTER {
            return fail(FFWD_ARGUMENT, format!("the text before a grammar has 1 to {AFTER} bytes, not {}", text.len()));
        }
        let id = std::str::from_utf8(text).map_or(-1, |t| tok.find_special(t));
        if id >= 0 && tok.ends.contains(&id) {
            return fail(FFWD_ARGUMENT, "the text before a grammar is a token that ends the reply");
        }
        let control = (id >= 0 && tok.vocab.is_special(id as usize)).then_some(id as u32);
        let mut back = vec![0u32; text.len()];
        let mut k = 0usize;
        for i in 1..text.len() {
            while k > 0 && text[i] != text[k] {
                k = back[k - 1] as usize;
            }
            k += usize::from(text[i] == text[k]);
            back[i] = k as u32;
        }
        let denied = vec![Vec::new(); text.len()];
        Ok(After { control, text: text.to_vec(), back, denied })
    }

    /// The state behind some bytes, and where among them the text ended.
    pub fn run(&self, state: u32, bytes: &[u8]) -> (u32, Option<usize>) {
        let mut k = state as usize;
        for (i, &b) in bytes.iter().enumerate() {
            while k > 0 && b != self.text[k] {
                k = self.back[k - 1] as usize;
            }
            k += usize::from(b == self.text[k]);
            if k == self.text.len() {
                return (0, Some(i + 1));
            }
        }
        (k as u32, None)
    }

    pub fn denied(&self, state: u32) -> &[u32] {
        self.denied.get(state as usize).map_or(&[], |d| d)
    }

    /// Finds the ids in which the text ends too early, and asks the grammar about what follows it there.
    fn look(&mut self, grammar: &Grammar) {
        let Some((&last, _)) = self.text.split_last() else { return };
        if self.control.is_some() {
            return;
        }
        let mut start = grammar.copy();
        let mut known: AHashMap<Vec<u8>, bool> = AHashMap::new();
        for id in 0..grammar.factory.vocab as u32 {
            let bytes = grammar.bytes_of(id);
            let inside = bytes.len() > 1 && bytes[..bytes.len() - 1].contains(&last);
            if !inside || !grammar.factory.free.is_allowed(id) {
                continue;
            }
            for state in 0..self.text.len() {
                let (_, Some(at)) = self.run(state as u32, bytes) else { continue };
                let rest = &bytes[at..];
                if rest.is_empty() {
                    continue;
                }
                let fits = *known.entry(rest.to_vec()).or_insert_with(|| {
                    let ids = grammar.split(rest);
                    start.validate_tokens(&ids).is_ok_and(|n| n == ids.len()) && !ids.is_empty()
                });
                if !fits {
                    self.denied[state].push(id);
                }
            }
        }
    }
}

pub struct Grammar {
    pub factory: Arc<Factory>,
    pub after: Option<After>,
    /// A JSON array of what was left out.
    pub relaxed: String,
    /// Of memory, about.
    pub bytes: usize,
    tok: Arc<Tok>,
    first: Mutex<Matcher>,
    /// The schema as it was compiled, for `compact`.
    schema: Option<Value>,
    compact: OnceLock<Result<Mutex<Matcher>, String>>,
}

/// The sentence of one of llguidance's errors: its first line, without the place marks that are only for terminals.
fn sentence(e: impl std::fmt::Display) -> String {
    let words = e.to_string();
    let line = words.lines().find(|l| !l.trim().is_empty()).unwrap_or("no reason given");
    line.trim().to_string()
}

/// Whether an error of llguidance's is one of its limits; it only says so in words.
fn is_limit(text: &str) -> bool {
    const WORDS: [&str; 9] = [
        "too large", "too complex", "too big", "too many", "Too many", "limit", "fuel", "lexer error", "items; max is",
    ];
    WORDS.iter().any(|w| text.contains(w))
}

/// Why a matcher came to its end.
pub fn stopped(e: impl std::fmt::Display) -> Fail {
    let text = sentence(&e);
    let code = if is_limit(&text) { FFWD_TOO_LONG } else { FFWD_ARGUMENT };
    Fail { code, text: format!("the grammar cannot go on here: {text}") }
}

/// What kind of failure an error of llguidance's is.
fn refuse(e: impl std::fmt::Display) -> Fail {
    let text = sentence(&e);
    let has = |parts: &[&str]| parts.iter().any(|p| text.contains(p));
    let code = if is_limit(&text) {
        FFWD_TOO_LONG
    } else if has(&["not supported", "Unimplemented", "not implemented"]) {
        FFWD_UNSUPPORTED
    } else if text.contains("panic") {
        FFWD_BUG
    } else {
        FFWD_ARGUMENT
    };
    Fail { code, text }
}

/// So many beginnings are tried.
const TRIES: usize = 4;

/// A grammar whose beginnings all run into a limit is refused now, and not in the middle of a reply.
fn first_step(m: &Matcher, mask: &SimpleVob, end: u32) -> Res<()> {
    let mut last = Ok(());
    if mask.is_allowed(end) {
        return last;
    }
    for id in mask.iter().take(TRIES) {
        let mut copy = m.deep_clone();
        let went = copy.consume_token(id).and_then(|()| match copy.is_stopped() {
            true => Ok(()),
            false => copy.compute_mask().map(drop),
        });
        match went.map_err(refuse) {
            Err(f) if f.code == FFWD_TOO_LONG => last = Err(f),
            _ => return Ok(()),
        }
    }
    last
}

fn matcher(factory: &ParserFactory, top: TopLevelGrammar) -> Res<Matcher> {
    let parser = factory.create_parser(top).map_err(refuse)?;
    // Going back is part of the interface, so what cannot go back is no grammar.
    parser.parser.grammar().lexer_spec().check_rollback().map_err(refuse)?;
    let mut m = Matcher::new(Ok(parser));
    // Also finds out whether anything can match, and fills what the copies share.
    match m.compute_mask() {
        Ok(mask) => first_step(&m, &mask, factory.tok_env().tok_trie().eos_token()).map(|()| m),
        Err(e) if m.stop_reason() == llguidance::api::StopReason::NoExtensionBias => {
            drop(e);
            fail(FFWD_ARGUMENT, "nothing can match the grammar")
        }
        Err(e) => Err(refuse(e)),
    }
}

fn utf8(text: &[u8]) -> Res<&str> {
    std::str::from_utf8(text).map_err(|_| Fail { code: FFWD_ARGUMENT, text: "the grammar is not valid UTF-8".into() })
}

/// A schema with llguidance's options, as a whole grammar or as a part of one.
pub fn with_options(mut schema: Value, compact: bool, escapes: bool) -> Value {
    if let Value::Bool(b) = schema {
        schema = if b { json!({}) } else { json!({"enum": []}) };
    }
    let mut options = json!({"item_separator": ",", "key_separator": ":", "whitespace_flexible": !compact});
    if !compact {
        options["whitespace_pattern"] = json!(SPACE);
    }
    if !escapes {
        // Without \u no key has a second spelling, so a key that is taken stays taken.
        options["json_allowed_escapes"] = json!("nrbtf\\\"");
    }
    if let Some(map) = schema.as_object_mut() {
        map.insert("x-guidance".to_string(), options);
    }
    schema
}

fn json_grammar(schema: &Value, behind_text: bool) -> TopLevelGrammar {
    if behind_text {
        // Models put an empty line behind their reasoning.
        TopLevelGrammar::from_lark(format!("start: SPACE? json\nSPACE: /[ \\t\\r\\n]{{1,8}}/\njson: %json {schema}\n"))
    } else {
        TopLevelGrammar::from_json_schema(schema.clone())
    }
}

fn choice(text: &str) -> Res<String> {
    let what = "a choice is a JSON array of one or more strings";
    let Ok(Value::Array(items)) = serde_json::from_str(text) else { return fail(FFWD_ARGUMENT, what) };
    if items.is_empty() {
        return fail(FFWD_ARGUMENT, what);
    }
    let mut out = String::from("start: CHOICE\nCHOICE: ");
    for (i, item) in items.iter().enumerate() {
        let Some(s) = item.as_str() else { return fail(FFWD_ARGUMENT, what) };
        if i > 0 {
            out.push_str(" | ");
        }
        out.push_str(&lark::literal(s));
    }
    out.push('\n');
    Ok(out)
}

fn regex(text: &str) -> Res<String> {
    let mut body = text.strip_prefix('^').unwrap_or(text);
    // A last $ that is not escaped: an even number of backslashes before it.
    if let Some(head) = body.strip_suffix('$') {
        if head.chars().rev().take_while(|&c| c == '\\').count() % 2 == 0 {
            body = head;
        }
    }
    if body.is_empty() {
        return fail(FFWD_ARGUMENT, "the regular expression is empty");
    }
    schema::check_regex(body)?;
    Ok(format!("start: /{}/\n", regex_to_lark(body, "dw")))
}

impl Grammar {
    /// On a thread of its own, unless the source says otherwise: the depth of recursion is the source's.
    pub fn compile(tok: &Arc<Tok>, factory: &Arc<Factory>, source: Source) -> Res<Arc<Self>> {
        let (tok, factory) = (tok.clone(), factory.clone());
        if source.here {
            return Self::build(tok, factory, source);
        }
        let thread = std::thread::Builder::new()
            .name("grammar".into())
            .stack_size(STACK)
            .spawn(move || catch(|| Self::build(tok, factory, source)));
        match thread {
            Ok(t) => t.join().unwrap_or_else(|_| fail(FFWD_BUG, "the grammar compiler died")),
            Err(e) => fail(FFWD_BUG, format!("no thread to compile a grammar: {e}")),
        }
    }

    fn build(tok: Arc<Tok>, factory: Arc<Factory>, source: Source) -> Res<Arc<Self>> {
        let before = held();
        let text = utf8(&source.text)?;
        let behind = source.after.is_some();
        let mut relaxed = Vec::new();
        let mut json = None;
        let top = match source.kind {
            Kind::Json => {
                json = Some(json!({"type": "object"}));
                json_grammar(&with_options(json!({"type": "object"}), false, true), behind)
            }
            Kind::Schema => {
                let parsed = schema::parse(text)?;
                let checked = schema::check(&parsed, source.relax, &mut relaxed)?;
                let top = json_grammar(&with_options(checked.clone(), false, false), behind);
                json = Some(checked);
                top
            }
            Kind::Regex => TopLevelGrammar::from_lark(regex(text)?),
            Kind::Choice => TopLevelGrammar::from_lark(choice(text)?),
            Kind::Lark => TopLevelGrammar::from_lark(lark::check(text, source.relax, &mut relaxed)?),
            Kind::Gbnf => TopLevelGrammar::from_lark(gbnf::to_lark(text)?),
        };
        let first = matcher(&factory.inner, top)?;
        let after = source.after.map(|a| After::new(&tok, &a)).transpose()?;
        let mut g = Grammar {
            factory,
            after: None,
            relaxed: serde_json::to_string(&relaxed).unwrap_or_default(),
            bytes: 0,
            tok,
            first: Mutex::new(first),
            schema: json,
            compact: OnceLock::new(),
        };
        if let Some(mut a) = after {
            a.look(&g);
            g.after = Some(a);
        }
        // The compact one is made later, if at all, and is about as large.
        g.bytes = (held() - before).max(0) as usize * if g.schema.is_some() { 2 } else { 1 };
        Ok(Arc::new(g))
    }

    /// A matcher at the grammar's start, sharing nothing with others.
    pub fn copy(&self) -> Matcher {
        self.first.lock().unwrap_or_else(|e| e.into_inner()).deep_clone()
    }

    pub fn compact(&self) -> Res<Option<Matcher>> {
        let Some(schema) = &self.schema else { return Ok(None) };
        let made = self.compact.get_or_init(|| {
            let (schema, factory) = (schema.clone(), self.factory.clone());
            let thread = std::thread::Builder::new().stack_size(STACK).spawn(move || {
                catch(|| matcher(&factory.bytes, json_grammar(&with_options(schema, true, false), false)))
            });
            match thread.map(|t| t.join()) {
                Ok(Ok(Ok(m))) => Ok(Mutex::new(m)),
                Ok(Ok(Err(f))) => Err(f.text),
                _ => Err("no thread to compile a grammar".into()),
            }
        });
        match made {
            Ok(m) => Ok(Some(m.lock().unwrap_or_else(|e| e.into_inner()).deep_clone())),
            Err(text) => fail(FFWD_ARGUMENT, text.clone()),
        }
    }

    pub fn bytes_of(&self, id: u32) -> &[u8] {
        self.tok.vocab.bytes(id as usize)
    }

    /// Any ids for these bytes, the tokenizer's where it can.
    pub fn split(&self, bytes: &[u8]) -> Vec<u32> {
        self.factory.inner.tok_env().tokenize_bytes(bytes)
    }
}

