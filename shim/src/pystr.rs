//! Methods of Python's str, list and dict that templates call and the compatibility crate lacks or does otherwise.
//!
//! White space is Python's: what Unicode calls so, and the four separators U+001C to U+001F.

use crate::pyrepr;
use minijinja::formatting::{format, FormatStyle};
use minijinja::value::{from_args, Tuple, Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

pub fn space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

fn bad(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, text.into())
}

/// The environment's unknown-method hook: ours first, then the compatibility crate's.
pub fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let ours = match value.kind() {
        ValueKind::String => str_method(value.as_str().unwrap_or(""), name, args),
        ValueKind::Seq => list_method(value, name, args),
        ValueKind::Map if name == "copy" => Ok(Some(value.clone())),
        _ => Ok(None),
    }?;
    match ours {
        Some(v) => Ok(v),
        None => minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args),
    }
}

fn list_method(v: &Value, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    Ok(Some(match name {
        "copy" => v.clone(),
        "index" => {
            let (what,): (&Value,) = from_args(args)?;
            match v.try_iter()?.position(|x| x == *what) {
                Some(i) => Value::from(i),
                None => return Err(bad("the value is not in the list")),
            }
        }
        _ => return Ok(None),
    }))
}

fn str_method(s: &str, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    Ok(Some(match name {
        "strip" => Value::from(strip(s, args, true, true)?),
        "lstrip" => Value::from(strip(s, args, true, false)?),
        "rstrip" => Value::from(strip(s, args, false, true)?),
        "split" => split(s, args, false)?,
        "rsplit" => split(s, args, true)?,
        "splitlines" => splitlines(s, args)?,
        "removeprefix" => {
            let (p,): (&str,) = from_args(args)?;
            Value::from(s.strip_prefix(p).unwrap_or(s))
        }
        "removesuffix" => {
            let (p,): (&str,) = from_args(args)?;
            Value::from(s.strip_suffix(p).unwrap_or(s))
        }
        "partition" | "rpartition" => {
            let (sep,): (&str,) = from_args(args)?;
            let at = if name == "partition" { s.find(sep) } else { s.rfind(sep) };
            let parts = match at {
                Some(i) => [&s[..i], sep, &s[i + sep.len()..]],
                None if name == "partition" => [s, "", ""],
                None => ["", "", s],
            };
            Value::from(Tuple::from(parts.map(Value::from).to_vec()))
        }
        "find" | "rfind" | "index" | "rindex" => {
            let (what,): (&str,) = from_args(args)?;
            let at = if name.starts_with('r') { s.rfind(what) } else { s.find(what) };
            match at {
                Some(i) => Value::from(s[..i].chars().count()),
                None if name.ends_with("index") => return Err(bad("substring not found")),
                None => Value::from(-1),
            }
        }
        "join" => {
            let (items,): (&Value,) = from_args(args)?;
            let mut out = String::new();
            for (i, item) in items.try_iter()?.enumerate() {
                if i > 0 {
                    out.push_str(s);
                }
                match item.as_str() {
                    Some(t) => out.push_str(t),
                    None => {
                        return Err(bad(format!("sequence item {i}: expected str instance, {} found", item.kind())))
                    }
                }
            }
            Value::from(out)
        }
        "zfill" => {
            let (n,): (usize,) = from_args(args)?;
            let (sign, digits) = if s.starts_with(['+', '-']) { s.split_at(1) } else { ("", s) };
            let fill = n.min(1 << 16).saturating_sub(s.chars().count());
            Value::from(format!("{sign}{}{digits}", "0".repeat(fill)))
        }
        "ljust" | "rjust" | "center" => {
            let (n, fill): (usize, Option<&str>) = from_args(args)?;
            let fill = fill.unwrap_or(" ");
            let left = n.min(1 << 16).saturating_sub(s.chars().count());
            let before = match name {
                "ljust" => 0,
                "rjust" => left,
                _ => left / 2 + (left & n & 1),
            };
            Value::from(format!("{}{s}{}", fill.repeat(before), fill.repeat(left - before)))
        }
        "casefold" => Value::from(s.to_lowercase()),
        "swapcase" => Value::from(
            s.chars()
                .flat_map(|c| -> Vec<char> {
                    if c.is_lowercase() {
                        c.to_uppercase().collect()
                    } else {
                        c.to_lowercase().collect()
                    }
                })
                .collect::<String>(),
        ),
        "isspace" => Value::from(!s.is_empty() && s.chars().all(space)),
        "isdecimal" => Value::from(!s.is_empty() && s.chars().all(|c| c.is_ascii_digit())),
        _ => return Ok(None),
    }))
}

fn strip<'a>(s: &'a str, args: &[Value], left: bool, right: bool) -> Result<&'a str, Error> {
    let (chars,): (Option<&str>,) = from_args(args)?;
    let drop = |c: char| match chars {
        Some(set) => set.contains(c),
        None => space(c),
    };
    let s = if left { s.trim_start_matches(drop) } else { s };
    Ok(if right { s.trim_end_matches(drop) } else { s })
}

fn split(s: &str, args: &[Value], from_right: bool) -> Result<Value, Error> {
    let (args, kwargs) = pyrepr::keywords(args)?;
    let sep: Option<Value> = match args.first() {
        Some(v) => Some(v.clone()),
        None => kwargs.get("sep")?,
    };
    let max: Option<i64> = match args.get(1) {
        Some(v) => Some(i64::try_from(v.clone())?),
        None => kwargs.get("maxsplit")?,
    };
    kwargs.assert_all_used()?;
    let max = max.filter(|&m| m >= 0).map_or(usize::MAX, |m| m as usize);
    let sep = match &sep {
        Some(v) if !v.is_none() => Some(v.as_str().ok_or_else(|| bad("the separator must be a string"))?),
        _ => None,
    };
    let mut parts: Vec<&str> = match sep {
        Some("") => return Err(bad("empty separator")),
        Some(sep) if from_right => s.rsplitn(max.saturating_add(1), sep).collect(),
        Some(sep) => s.splitn(max.saturating_add(1), sep).collect(),
        None => words(s, max, from_right),
    };
    if from_right {
        parts.reverse();
    }
    Ok(parts.into_iter().map(Value::from).collect())
}

/// Splitting at runs of white space; from the right the parts come last first.
fn words(s: &str, max: usize, from_right: bool) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = s;
    loop {
        rest = if from_right { rest.trim_end_matches(space) } else { rest.trim_start_matches(space) };
        if rest.is_empty() {
            return parts;
        }
        let at = if from_right {
            rest.char_indices().rfind(|&(_, c)| space(c)).map(|(i, c)| (i + c.len_utf8(), i))
        } else {
            rest.find(space).map(|i| (i, i))
        };
        match at {
            Some((cut, keep)) if parts.len() < max => {
                if from_right {
                    parts.push(&rest[cut..]);
                    rest = &rest[..keep];
                } else {
                    parts.push(&rest[..cut]);
                    rest = &rest[cut..];
                }
            }
            // The last part keeps the white space inside it and at its far end.
            _ => {
                parts.push(rest);
                return parts;
            }
        }
    }
}

fn splitlines(s: &str, args: &[Value]) -> Result<Value, Error> {
    let (args, kwargs) = pyrepr::keywords(args)?;
    let keep = match args.first() {
        Some(v) => v.is_true(),
        None => kwargs.get::<Option<bool>>("keepends")?.unwrap_or(false),
    };
    Ok(lines(s, keep).into_iter().map(Value::from).collect())
}

/// Lines as Python's `splitlines` sees them.
fn lines(s: &str, keep: bool) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut from = 0;
    let mut chars = s.char_indices().peekable();
    while let Some((i, c)) = chars.next() {
        if !matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}') {
            continue;
        }
        let mut end = i + c.len_utf8();
        if c == '\r' && chars.peek().is_some_and(|&(_, d)| d == '\n') {
            chars.next();
            end += 1;
        }
        lines.push(if keep { &s[from..end] } else { &s[from..i] });
        from = end;
    }
    if from < s.len() {
        lines.push(&s[from..]);
    }
    lines
}

/// The `trim` filter.
pub fn trim(value: &Value, chars: Option<&str>) -> Result<String, Error> {
    let s = pyrepr::str(value)?;
    let drop = |c: char| match chars {
        Some(set) => set.contains(c),
        None => space(c),
    };
    Ok(s.trim_matches(drop).to_string())
}

/// The `join` filter: every item through `str()`.
pub fn join(value: &Value, joiner: Option<&Value>, attribute: Option<&Value>) -> Result<String, Error> {
    let sep = joiner.map(pyrepr::str).transpose()?.unwrap_or_default();
    let mut out = String::new();
    if value.is_undefined() {
        return Ok(out);
    }
    for (i, item) in value.try_iter()?.enumerate() {
        if i > 0 {
            out.push_str(&sep);
        }
        match attribute {
            Some(a) => pyrepr::write_str(&item.get_item(a)?, &mut out)?,
            None => pyrepr::write_str(&item, &mut out)?,
        }
    }
    Ok(out)
}

/// The `indent` filter, with Jinja2's way of ending: a last line break stays, and what follows it is a line.
pub fn indent(value: &Value, args: &[Value]) -> Result<String, Error> {
    let (args, kwargs) = pyrepr::keywords(args)?;
    let pick = |i: usize, name: &str| -> Result<Option<Value>, Error> {
        match args.get(i) {
            Some(v) => Ok(Some(v.clone())),
            None => kwargs.get::<Option<Value>>(name),
        }
    };
    let width = match pick(0, "width")? {
        None => "    ".to_string(),
        Some(w) => match w.as_str() {
            Some(s) => s.to_string(),
            None => " ".repeat(i64::try_from(w)?.clamp(0, 1024) as usize),
        },
    };
    let first = pick(1, "first")?.is_some_and(|v| v.is_true());
    let blank = pick(2, "blank")?.is_some_and(|v| v.is_true());
    kwargs.assert_all_used()?;
    let text = pyrepr::str(value)? + "\n";
    let mut out = String::new();
    for (i, line) in lines(&text, false).into_iter().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        if if i == 0 { first } else { blank || !line.is_empty() } {
            out.push_str(&width);
        }
        out.push_str(line);
    }
    Ok(out)
}

/// The `escape` filter with MarkupSafe's entities.
pub fn escape(value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    for c in pyrepr::str(value)?.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            c => out.push(c),
        }
    }
    Ok(out)
}

/// Python's `%` between a string and its values, which is also the `format` filter. `%r` and whole-number conversions of
/// floats are done here, everything else by the library, one conversion at a time.
pub fn percent(fmt: &Value, args: &[Value]) -> Result<String, Error> {
    let text = fmt.as_str().unwrap_or("");
    let mut args = args.iter();
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let spec = &rest[at..];
        if let Some(tail) = spec.strip_prefix("%%") {
            out.push('%');
            rest = tail;
            continue;
        }
        let Some(end) = spec[1..].find(|c: char| c.is_ascii_alphabetic()).map(|i| i + 1) else {
            return Err(bad("incomplete format"));
        };
        if spec.starts_with("%(") {
            // Values by name: the library handles those for the whole string.
            return format(FormatStyle::Printf, text, args.as_slice());
        }
        let value = args.next().ok_or_else(|| bad("not enough arguments for format string"))?;
        let (spec, tail) = spec.split_at(end + 1);
        let (one, value) = match spec.as_bytes()[end] {
            b'r' => {
                let mut repr = String::new();
                pyrepr::write_repr(value, 0, &mut repr)?;
                (spec.replace('r', "s"), Value::from(repr))
            }
            b's' => (spec.to_string(), Value::from(pyrepr::str(value)?)),
            b'd' | b'i' | b'u' if pyrepr::is_float(value) => {
                (spec[..end].to_string() + "d", Value::from(f64::try_from(value.clone())?.trunc() as i64))
            }
            _ => (spec.to_string(), value.clone()),
        };
        out.push_str(&format(FormatStyle::Printf, &one, &[value])?);
        rest = tail;
    }
    out.push_str(rest);
    if args.next().is_some() {
        return Err(bad("not all arguments converted during string formatting"));
    }
    Ok(out)
}

/// What a `for` loop runs over. Python refuses None, where the engine would run no time at all.
pub fn looped(value: &Value) -> Result<Value, Error> {
    if value.is_none() {
        return Err(bad("None is not iterable"));
    }
    Ok(value.clone())
}

/// Fuel that no value needs to be looked at before: nothing made with it nests too deep to be dropped.
const SHALLOW: u64 = 30_000;

/// What a `set` keeps. A loop may nest a value once more each time round, and the engine drops, compares and prints
/// values by recursion; so what is kept may be nested only so deep. Slices and their like are made into lists, lest each
/// hold the one before. Looking costs fuel.
pub fn kept(state: &State, value: &Value) -> Result<Value, Error> {
    if value.as_object().is_none() || state.fuel_levels().is_none_or(|(used, _)| used < SHALLOW) {
        return Ok(value.clone());
    }
    let mut open = vec![(value.clone(), 0)];
    let mut seen = 0u64;
    while let Some((v, depth)) = open.pop() {
        if depth > pyrepr::DEPTH {
            return Err(pyrepr::too_deep());
        }
        let map = v.kind() == ValueKind::Map;
        if !map && !matches!(v.kind(), ValueKind::Seq | ValueKind::Iterable) {
            continue;
        }
        for item in v.try_iter()? {
            seen += 1;
            state.consume_fuel(u64::from(seen % 16 == 0))?;
            let inner = if map { v.get_item(&item)? } else { Value::UNDEFINED };
            open.extend([item, inner].into_iter().filter(|x| x.as_object().is_some()).map(|x| (x, depth + 1)));
        }
    }
    let lazy = matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
        && !value.is_tuple()
        && value.downcast_object_ref::<Vec<Value>>().is_none();
    Ok(if lazy { value.try_iter()?.collect::<Vec<Value>>().into() } else { value.clone() })
}
