//! Lark: what we write ourselves, and what has to be looked at in what clients write.

use crate::border::{fail, Res, FFWD_ARGUMENT, FFWD_UNSUPPORTED};
use crate::grammar::with_options;
use crate::schema;
use serde_json::Value;

/// A text as a Lark string.
pub fn literal(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default().replace('\u{7f}', "\\u007f")
}

/// Checks the JSON Schemas inside (`%json {...}`) like any other and bounds their white space.
pub fn check(text: &str, relax: bool, relaxed: &mut Vec<String>) -> Res<String> {
    if text.trim().is_empty() {
        return fail(FFWD_ARGUMENT, "the grammar is empty");
    }
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len() + 256);
    let (mut from, mut i) = (0, 0);
    while i < bytes.len() {
        match bytes[i] {
            b'#' => i = line_end(bytes, i),
            b'/' if bytes.get(i + 1) == Some(&b'/') => i = line_end(bytes, i),
            q @ (b'"' | b'/') => i = quoted_end(bytes, i, q),
            b'%' if text[i..].starts_with("%json") => {
                let at = i + "%json".len();
                let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
                let Some(Ok(value)) = values.next() else {
                    let line = 1 + text[..i].matches('\n').count();
                    return fail(FFWD_ARGUMENT, format!("line {line}: no JSON behind %json"));
                };
                let end = at + values.byte_offset();
                let mut checked = with_options(schema::check(&value, relax, relaxed)?, false, false);
                keep_spacing(&value, &mut checked);
                out.push_str(&text[from..at]);
                out.push(' ');
                out.push_str(&checked.to_string());
                (from, i) = (end, end);
            }
            b't' if word(text, i, "temperature") && bytes.get(blank_end(bytes, i + 11)) == Some(&b'=') => {
                let line = 1 + text[..i].matches('\n').count();
                return fail(FFWD_UNSUPPORTED, format!("line {line}: temperature= has no effect here"));
            }
            _ => i += 1,
        }
    }
    out.push_str(&text[from..]);
    Ok(out)
}

/// A grammar may say that a schema's JSON has just these separators and no other white space.
fn keep_spacing(asked: &Value, checked: &mut Value) {
    let asked = &asked["x-guidance"];
    let Some(options) = checked.get_mut("x-guidance").and_then(Value::as_object_mut) else { return };
    if asked["whitespace_flexible"] == Value::Bool(false) {
        options.insert("whitespace_flexible".into(), Value::Bool(false));
        options.remove("whitespace_pattern");
        for key in ["item_separator", "key_separator"] {
            if let Some(text) = asked[key].as_str() {
                options.insert(key.into(), Value::from(text));
            }
        }
    }
}

/// Whether this word, and no longer one, is at i.
fn word(text: &str, i: usize, word: &str) -> bool {
    let part = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    let bytes = text.as_bytes();
    bytes[i..].starts_with(word.as_bytes()) && !part(bytes.get(i + word.len())) && !(i > 0 && part(bytes.get(i - 1)))
}

/// Behind white space and comments.
fn blank_end(bytes: &[u8], mut i: usize) -> usize {
    while i < bytes.len() {
        match bytes[i] {
            b'#' => i = line_end(bytes, i),
            b'/' if bytes.get(i + 1) == Some(&b'/') => i = line_end(bytes, i),
            b if b.is_ascii_whitespace() => i += 1,
            _ => break,
        }
    }
    i
}

fn line_end(bytes: &[u8], from: usize) -> usize {
    bytes[from..].iter().position(|&b| b == b'\n').map_or(bytes.len(), |n| from + n)
}

fn quoted_end(bytes: &[u8], from: usize, quote: u8) -> usize {
    let mut i = from + 1;
    while i < bytes.len() {
        match bytes[i] {
            b'\\' => i += 2,
            b if b == quote => return i + 1,
            _ => i += 1,
        }
    }
    bytes.len()
}
