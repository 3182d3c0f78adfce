//! Values as Python prints them: `str()`, `repr()` and `json.dumps()`.
//!
//! Templates were written against Python, so a list in a prompt is `['a', 1, True]` and a float is what `repr` says.

use crate::template::FFWD_LIMIT_RENDERING;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};
use std::fmt::Write;

/// `repr(float)`: the shortest digits that round-trip, an exponent from 1e16 on and below 1e-4.
pub fn float(x: f64) -> String {
    if x.is_nan() {
        return "nan".into();
    }
    if x.is_infinite() {
        return if x > 0.0 { "inf".into() } else { "-inf".into() };
    }
    let sci = format!("{x:e}");
    let (digits, exp) = sci.split_once('e').unwrap_or((&sci, "0"));
    let exp: i32 = exp.parse().unwrap_or(0);
    if x != 0.0 && !(-4..16).contains(&exp) {
        let sign = if exp < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exp.abs());
    }
    let plain = format!("{x}");
    if plain.contains('.') {
        plain
    } else {
        plain + ".0"
    }
}

pub fn is_float(v: &Value) -> bool {
    v.kind() == ValueKind::Number && !v.is_integer()
}

/// Values nested deeper than this are not printed (a request's JSON cannot be, and Python's own limit is 1000), nor
/// values that print longer than a rendering may be.
pub(crate) const DEPTH: usize = 900;

pub fn too_deep() -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("a value is nested more than {DEPTH} levels deep"))
}

fn printable(depth: usize, out: &str) -> Result<(), Error> {
    if depth > DEPTH {
        return Err(too_deep());
    }
    if out.len() > FFWD_LIMIT_RENDERING {
        return Err(Error::new(ErrorKind::InvalidOperation, "a printed value exceeds the limit of a rendering"));
    }
    Ok(())
}

/// `str(value)`.
pub fn str(v: &Value) -> Result<String, Error> {
    let mut out = String::new();
    write_str(v, &mut out)?;
    Ok(out)
}

pub fn write_str(v: &Value, out: &mut String) -> Result<(), Error> {
    match v.as_str() {
        Some(s) => out.push_str(s),
        None if v.is_undefined() => {}
        None => write_repr(v, 0, out)?,
    }
    Ok(())
}

pub fn write_repr(v: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
    printable(depth, out)?;
    match v.kind() {
        ValueKind::String => quote(v.as_str().unwrap_or(""), out),
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::Number if is_float(v) => out.push_str(&float(f64::try_from(v.clone()).unwrap_or(f64::NAN))),
        ValueKind::Map => {
            out.push('{');
            for (i, key) in v.try_iter().into_iter().flatten().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write_repr(&key, depth + 1, out)?;
                out.push_str(": ");
                write_repr(&v.get_item(&key).unwrap_or_default(), depth + 1, out)?;
            }
            out.push('}');
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let tuple = v.is_tuple();
            out.push(if tuple { '(' } else { '[' });
            let mut n = 0;
            for item in v.try_iter().into_iter().flatten() {
                if n > 0 {
                    out.push_str(", ");
                }
                write_repr(&item, depth + 1, out)?;
                n += 1;
            }
            if tuple && n == 1 {
                out.push(',');
            }
            out.push(if tuple { ')' } else { ']' });
        }
        _ => {
            let _ = write!(out, "{v}");
        }
    }
    Ok(())
}

/// `repr(str)`.
fn quote(s: &str, out: &mut String) {
    let q = if s.contains('\'') && !s.contains('"') { '"' } else { '\'' };
    out.push(q);
    for c in s.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == q => {
                out.push('\\');
                out.push(c);
            }
            c if (c as u32) < 32 || (127..=160).contains(&(c as u32)) || c == '\u{ad}' => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push(q);
}

/// Splits a call's arguments into positional ones and keywords.
pub fn keywords(args: &[Value]) -> Result<(&[Value], Kwargs), Error> {
    match args.split_last() {
        Some((last, rest)) if last.is_kwargs() => Ok((rest, Kwargs::try_from(last.clone())?)),
        _ => Ok((args, Kwargs::from_iter(std::iter::empty::<(&str, Value)>()))),
    }
}

/// How `json.dumps` was asked to write.
struct Style {
    ascii: bool,
    indent: Option<String>,
    item: String,
    key: String,
    sort: bool,
}

/// The `tojson` filter of transformers: `json.dumps(x, ensure_ascii=False, …)`, without any HTML escaping.
pub fn tojson(value: &Value, args: &[Value]) -> Result<Value, Error> {
    let (args, kwargs) = keywords(args)?;
    let pick = |i: usize, name: &str| -> Result<Option<Value>, Error> {
        match args.get(i) {
            Some(v) => Ok(Some(v.clone())),
            None => kwargs.get::<Option<Value>>(name),
        }
    };
    let ascii = pick(0, "ensure_ascii")?.is_some_and(|v| v.is_true());
    let indent = match pick(1, "indent")? {
        None => None,
        Some(v) if v.is_none() || v.is_undefined() => None,
        Some(v) => match v.as_str() {
            Some(s) => Some(s.to_string()),
            None => {
                let n = i64::try_from(v)?;
                Some(" ".repeat(n.clamp(0, 64) as usize))
            }
        },
    };
    let (mut item, mut key) = (if indent.is_some() { "," } else { ", " }.to_string(), ": ".to_string());
    if let Some(seps) = pick(2, "separators")?.filter(|v| !v.is_none()) {
        item = str(&seps.get_item_by_index(0)?)?;
        key = str(&seps.get_item_by_index(1)?)?;
    }
    let sort = pick(3, "sort_keys")?.is_some_and(|v| v.is_true());
    kwargs.assert_all_used()?;
    let mut out = String::new();
    dump(value, &Style { ascii, indent, item, key, sort }, 0, &mut out)?;
    Ok(Value::from(out))
}

fn no_json(v: &Value) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("Object of type {} is not JSON serializable", v.kind()))
}

fn newline(style: &Style, depth: usize, out: &mut String) {
    if let Some(i) = &style.indent {
        out.push('\n');
        for _ in 0..depth {
            out.push_str(i);
        }
    }
}

fn dump(v: &Value, style: &Style, depth: usize, out: &mut String) -> Result<(), Error> {
    printable(depth, out)?;
    match v.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if v.is_true() { "true" } else { "false" }),
        ValueKind::Number if is_float(v) => dump_float(v, out),
        ValueKind::Number => {
            let _ = write!(out, "{v}");
        }
        ValueKind::String => dump_str(v.as_str().unwrap_or(""), style.ascii, out),
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            let mut n = 0;
            for item in v.try_iter()? {
                if n > 0 {
                    out.push_str(&style.item);
                }
                newline(style, depth + 1, out);
                dump(&item, style, depth + 1, out)?;
                n += 1;
            }
            if n > 0 {
                newline(style, depth, out);
            }
            out.push(']');
        }
        ValueKind::Map => {
            let mut keys: Vec<Value> = v.try_iter()?.collect();
            if style.sort {
                keys.sort();
            }
            out.push('{');
            for (n, key) in keys.iter().enumerate() {
                if n > 0 {
                    out.push_str(&style.item);
                }
                newline(style, depth + 1, out);
                dump_key(key, style, out)?;
                out.push_str(&style.key);
                dump(&v.get_item(key)?, style, depth + 1, out)?;
            }
            if !keys.is_empty() {
                newline(style, depth, out);
            }
            out.push('}');
        }
        _ => return Err(no_json(v)),
    }
    Ok(())
}

fn dump_float(v: &Value, out: &mut String) {
    let x = f64::try_from(v.clone()).unwrap_or(f64::NAN);
    match float(x).as_str() {
        "nan" => out.push_str("NaN"),
        "inf" => out.push_str("Infinity"),
        "-inf" => out.push_str("-Infinity"),
        s => out.push_str(s),
    }
}

fn dump_key(key: &Value, style: &Style, out: &mut String) -> Result<(), Error> {
    match key.kind() {
        ValueKind::String => dump_str(key.as_str().unwrap_or(""), style.ascii, out),
        ValueKind::None | ValueKind::Bool | ValueKind::Number => {
            out.push('"');
            dump(key, style, 0, out)?;
            out.push('"');
        }
        _ => return Err(no_json(key)),
    }
    Ok(())
}

fn dump_str(s: &str, ascii: bool, out: &mut String) {
    out.push('"');
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 32 || (ascii && c as u32 > 126) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
