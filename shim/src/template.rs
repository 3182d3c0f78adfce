//! Chat templates: an environment that behaves like the one in transformers.
//!
//! transformers renders with Jinja2's immutable sandbox, `trim_blocks`, `lstrip_blocks`, loop controls, `tojson`
//! without HTML escaping, `raise_exception` and `strftime_now`. The same is set up here on minijinja, plus Python's
//! way of printing values and its methods.

use crate::border::{fail, Fail, Res, FFWD_ARGUMENT, FFWD_BUG, FFWD_MODEL, FFWD_TOO_LONG};
use crate::marks;
use crate::places::Wording;
use crate::special::Splitter;
use crate::strftime::Now;
use crate::tokenizer::{Marks, Tok};
use crate::vocab::NONE;
use crate::{dialect, pyrepr, pystr, stack, strftime};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Rest, Serde, Value, ValueKind, ValueOrKwargs};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};
use serde_json::Value as Json;
use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

/// Template instructions of one rendering, and bytes of its text and of a template's source.
pub const FFWD_LIMIT_FUEL: u64 = 40_000_000;
pub const FFWD_LIMIT_RENDERING: usize = 64 << 20;
pub const FFWD_LIMIT_SOURCE: usize = 1 << 20;

/// Rendering recurses with the template's own calls, and the engine drops, compares and prints values by recursion; callers
/// may run on small stacks, so it gets one of its own. What is kept is nested at most pyrepr::DEPTH deep (pystr::kept),
/// and a single expression can add some 60,000 levels to that: RECURSION calls with as many brackets as the parser takes.
const RECURSION: usize = 400;

pub struct Template {
    env: Environment<'static>,
    pub source: String,
    /// For the first splitter that asked; there is seldom another.
    wording: OnceLock<(u64, Arc<Wording>)>,
}

/// What `raise_exception` was called with.
#[derive(Debug)]
struct Raised(String);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

/// A rendering and the same text with marks, if any were needed.
pub struct Rendering {
    pub text: String,
    pub marked: Option<String>,
    pub marks: Option<Marks>,
}

impl Template {
    pub fn new(source: &[u8]) -> Res<Self> {
        let Ok(source) = std::str::from_utf8(source) else {
            return fail(FFWD_MODEL, "the chat template is not valid UTF-8");
        };
        if source.len() > FFWD_LIMIT_SOURCE {
            let text = format!("a chat template of {} bytes exceeds the limit of {FFWD_LIMIT_SOURCE}", source.len());
            return fail(FFWD_MODEL, text);
        }
        let source = source.to_string();
        on_own_stack(move || {
            let mut env = environment();
            if let Err(e) = env.add_template_owned("chat", dialect::rewrite(&source)) {
                return fail(FFWD_MODEL, format!("the chat template does not parse: {}", describe(&e)));
            }
            Ok(Template { env, source, wording: OnceLock::new() })
        })
    }

    pub fn render(&self, tok: Option<&Tok>, vars: &[u8], now: Now) -> Res<Rendering> {
        on_own_stack(|| {
            let mut doc: Json = match serde_json::from_slice(vars) {
                Ok(v) => v,
                Err(e) => return fail(FFWD_ARGUMENT, format!("the template's variables are not JSON: {e}")),
            };
            let Some(map) = doc.as_object_mut() else {
                return fail(FFWD_ARGUMENT, "the template's variables must be a JSON object");
            };
            let own = own_tokens(tok);
            if tok.is_some() {
                for name in OWN_NAMES {
                    map.shift_remove(name);
                }
            }
            match tok {
                Some(t) => marks::render(self, t, &own, doc, now),
                None => Ok(Rendering { text: self.once(&doc, &own, now)?, marked: None, marks: None }),
            }
        })
    }

    pub fn wording(&self, splitter: &Splitter) -> Arc<Wording> {
        let read = || Arc::new(Wording::new(splitter, &self.source));
        match self.wording.get_or_init(|| (splitter.serial, read())) {
            (of, kept) if *of == splitter.serial => kept.clone(),
            _ => read(),
        }
    }

    /// One rendering of one document.
    pub fn once(&self, doc: &Json, own: &[(&'static str, String)], now: Now) -> Res<String> {
        let clock = Value::from_function(move |fmt: &str| strftime::format(now, fmt));
        let ours = own.iter().map(|(k, v)| (*k, Value::from(v.as_str()))).chain([("strftime_now", clock)]);
        let theirs = doc.as_object().into_iter().flatten().map(|(k, v)| (k.as_str(), Value::from(Serde(v))));
        let context = Value::from_pairs(ours.chain(theirs));
        let template = match self.env.get_template("chat") {
            Ok(t) => t,
            Err(e) => return fail(FFWD_BUG, describe(&e)),
        };
        let mut out = Limited(Vec::new());
        match template.render_captured_to(context, &mut out) {
            Ok(_) => {}
            Err(e) => return Err(failure(&e)),
        }
        String::from_utf8(out.0).map_err(|_| Fail { code: FFWD_BUG, text: "a rendering is not UTF-8".into() })
    }
}

const OWN_NAMES: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token"];

fn own_tokens(tok: Option<&Tok>) -> Vec<(&'static str, String)> {
    let mut own = Vec::new();
    if let Some(t) = tok {
        for (name, id) in [("bos_token", t.bos), ("eos_token", t.eos), ("unk_token", t.unk), ("pad_token", t.pad)] {
            if id != NONE {
                own.push((name, String::from_utf8_lossy(t.vocab.bytes(id as usize)).into_owned()));
            }
        }
    }
    own
}

struct Limited(Vec<u8>);

impl io::Write for Limited {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.0.len() + data.len() > FFWD_LIMIT_RENDERING {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "rendering"));
        }
        self.0.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn failure(e: &Error) -> Fail {
    let mut at: Option<&dyn std::error::Error> = Some(e);
    while let Some(err) = at {
        if let Some(r) = err.downcast_ref::<Raised>() {
            return Fail { code: FFWD_ARGUMENT, text: r.0.clone() };
        }
        if let Some(e) = err.downcast_ref::<Error>() {
            if e.kind() == ErrorKind::OutOfFuel {
                return Fail {
                    code: FFWD_TOO_LONG,
                    text: "the chat template did not end within its limit of steps".into(),
                };
            }
        }
        if let Some(e) = err.downcast_ref::<io::Error>() {
            if e.kind() == io::ErrorKind::FileTooLarge {
                let text = format!("the rendered conversation exceeds {FFWD_LIMIT_RENDERING} bytes");
                return Fail { code: FFWD_TOO_LONG, text };
            }
        }
        at = err.source();
    }
    Fail { code: FFWD_ARGUMENT, text: format!("the chat template failed: {}", describe(e)) }
}

fn describe(e: &Error) -> String {
    let what = match e.detail() {
        Some(d) => format!("{}: {d}", e.kind()),
        None => e.kind().to_string(),
    };
    match e.line() {
        Some(n) => format!("{what} (line {n})"),
        None => what,
    }
}

/// Runs `body` on the large stack; panics come back as errors of the border. An exhausted stack would not: it ends the
/// process. Against that stand the limits on recursion, on what is printed and kept (pyrepr::DEPTH), and on fuel.
fn on_own_stack<T>(body: impl FnOnce() -> Res<T>) -> Res<T> {
    match stack::run(|| crate::border::catch(body)) {
        Ok(result) => result,
        Err(e) => fail(FFWD_BUG, format!("no memory for a stack to render on: {e}")),
    }
}

fn environment() -> Environment<'static> {
    let mut env = Environment::new();
    if let Ok(syntax) = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build() {
        env.set_syntax(syntax);
    }
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_undefined_behavior(UndefinedBehavior::Lenient);
    env.set_recursion_limit(RECURSION);
    env.set_fuel(Some(FFWD_LIMIT_FUEL));
    env.set_unknown_method_callback(pystr::method);
    env.set_formatter(|out, _, value| {
        if let Some(s) = value.as_str() {
            return out.write_str(s).map_err(Error::from);
        }
        out.write_str(&pyrepr::str(value)?).map_err(Error::from)
    });
    functions(&mut env);
    filters(&mut env);
    tests(&mut env);
    env
}

fn functions(env: &mut Environment<'static>) {
    env.add_function("raise_exception", |message: &Value| -> Result<Value, Error> {
        let text = pyrepr::str(message)?;
        Err(Error::new(ErrorKind::InvalidOperation, text.clone()).with_source(Raised(text)))
    });
    env.add_function("cycler", |items: Rest<Value>| minijinja_contrib::globals::cycler(items.0));
    env.add_function("joiner", minijinja_contrib::globals::joiner);
}

fn filters(env: &mut Environment<'static>) {
    env.add_filter("tojson", |v: &Value, args: Rest<ValueOrKwargs>| pyrepr::tojson(v, &args.into_values()));
    env.add_filter("string", |v: &Value| pyrepr::str(v));
    env.add_filter("trim", |v: &Value, chars: Option<&str>| pystr::trim(v, chars));
    env.add_filter("format", |v: &Value, args: Rest<ValueOrKwargs>| pystr::percent(v, &args.into_values()));
    env.add_filter(dialect::KEPT, pystr::kept);
    env.add_filter(dialect::LOOPED, |v: &Value| pystr::looped(v));
    env.add_filter("indent", |v: &Value, args: Rest<ValueOrKwargs>| pystr::indent(v, &args.into_values()));
    env.add_filter("wordcount", |v: &Value| {
        Ok::<_, Error>(pyrepr::str(v)?.split(pystr::space).filter(|w| !w.is_empty()).count())
    });
    env.add_filter("escape", |v: &Value| pystr::escape(v));
    env.add_filter("e", |v: &Value| pystr::escape(v));
    env.add_filter("join", |v: &Value, d: Option<&Value>, attribute: Option<&Value>, kwargs: Kwargs| {
        let sep: Option<Value> = kwargs.get("d")?;
        let attr: Option<Value> = kwargs.get("attribute")?;
        kwargs.assert_all_used()?;
        pystr::join(v, d.or(sep.as_ref()), attribute.or(attr.as_ref()))
    });
}

/// Tests by Python's types: strings, dicts and undefined are iterable; dicts and strings have items and a length.
fn tests(env: &mut Environment<'static>) {
    let iterable = |v: &Value| {
        matches!(
            v.kind(),
            ValueKind::String | ValueKind::Seq | ValueKind::Map | ValueKind::Iterable | ValueKind::Undefined
        )
    };
    let sequence =
        |v: &Value| matches!(v.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Map | ValueKind::Undefined);
    env.add_test("iterable", iterable);
    env.add_test("sequence", sequence);
    env.add_test("callable", |v: &Value| v.kind() == ValueKind::Plain);
    env.add_test("number", |v: &Value| matches!(v.kind(), ValueKind::Number | ValueKind::Bool));
}
