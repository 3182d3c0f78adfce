//! What transformers' Jinja does and minijinja does not, rewritten in the source before compiling.
//!
//! `{% generation %}…{% endgeneration %}` marks the assistant's words for training; rendering takes it as always true.
//! `"literal" % values` is Python's formatting; it becomes the `format` filter. (Only after a literal: what stands left
//! of a `%` otherwise may be a number.) What a `for` runs over goes through a filter that refuses None, as Python does.
//! What a `set` keeps goes through one that refuses endless nesting.

/// The filters' names; no template can have them by accident.
pub const LOOPED: &str = "ffwd_looped";
pub const KEPT: &str = "ffwd_kept";

pub fn rewrite(source: &str) -> String {
    let mut out = String::with_capacity(source.len() + 64);
    let mut rest = source;
    while let Some(at) = rest.find('{') {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let close = match tag.as_bytes().get(1) {
            Some(b'%') => "%}",
            Some(b'{') => "}}",
            Some(b'#') => "#}",
            _ => {
                out.push('{');
                rest = &tag[1..];
                continue;
            }
        };
        let end = if close == "#}" { tag.find("#}").map(|i| i + 2) } else { end_of_tag(tag, close) };
        let Some(end) = end else {
            out.push_str(tag);
            return out;
        };
        let (whole, after) = tag.split_at(end);
        rest = after;
        if close == "#}" {
            out.push_str(whole);
            continue;
        }
        let name = whole[2..whole.len() - 2].trim_matches(|c: char| c == '-' || c == '+' || c.is_whitespace());
        match name {
            "generation" => out.push_str(&whole.replacen("generation", "if true", 1)),
            "endgeneration" => out.push_str(&whole.replacen("endgeneration", "endif", 1)),
            "raw" => {
                let stop = end_of_raw(rest);
                out.push_str(whole);
                out.push_str(&rest[..stop]);
                rest = &rest[stop..];
            }
            _ if close == "%}" && name.starts_with("for ") => {
                let mut tag = String::new();
                percent(whole, &mut tag);
                looped(&tag, &mut out);
            }
            _ if close == "%}" && name.starts_with("set ") => {
                let mut tag = String::new();
                percent(whole, &mut tag);
                kept(&tag, &mut out);
            }
            _ => percent(whole, &mut out),
        }
    }
    out.push_str(rest);
    out
}

/// Calls `each` for every string literal in the tags of `source`. Raw blocks and comments count too: the more, the better
/// for whoever asks what a template may look for.
pub fn each_literal(source: &str, each: &mut dyn FnMut(String)) {
    let mut rest = source;
    while let Some(at) = rest.find('{') {
        let tag = &rest[at..];
        let close = match tag.as_bytes().get(1) {
            Some(b'%') => "%}",
            Some(b'{') => "}}",
            _ => {
                rest = &tag[1..];
                continue;
            }
        };
        let Some(end) = end_of_tag(tag, close) else { return };
        let bytes = tag.as_bytes();
        let mut i = 2;
        while i < end {
            if !matches!(bytes[i], b'\'' | b'"') {
                i += 1;
                continue;
            }
            let Some(stop) = end_of_string(bytes, i) else { break };
            each(unescape(&tag[i + 1..stop - 1]));
            i = stop;
        }
        rest = &tag[end..];
    }
}

/// A string literal's value, as far as it matters for finding it: `\u` and `\x` are left as they are.
fn unescape(s: &str) -> String {
    let mut out = String::with_capacity(s.len());
    let mut chars = s.chars();
    while let Some(c) = chars.next() {
        match (c, if c == '\\' { chars.next() } else { None }) {
            ('\\', Some('n')) => out.push('\n'),
            ('\\', Some('r')) => out.push('\r'),
            ('\\', Some('t')) => out.push('\t'),
            ('\\', Some(q @ ('\\' | '\'' | '"' | '/'))) => out.push(q),
            ('\\', Some(other)) => out.extend(['\\', other]),
            _ => out.push(c),
        }
    }
    out
}

/// Where the tag that `text` begins with ends; strings inside it may hold anything.
fn end_of_tag(text: &str, close: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut i = 2;
    let mut braces = 0usize;
    while i < bytes.len() {
        match bytes[i] {
            b'\'' | b'"' => {
                i = end_of_string(bytes, i)?;
                continue;
            }
            b'{' if close == "}}" => braces += 1,
            b'}' if close == "}}" && braces > 0 => {
                braces -= 1;
                i += 1;
                continue;
            }
            _ => {}
        }
        if text[i..].as_bytes().starts_with(close.as_bytes()) {
            return Some(i + 2);
        }
        i += 1;
        while !text.is_char_boundary(i) {
            i += 1;
        }
    }
    None
}

/// Behind the closing quote of the string that starts at `i`.
fn end_of_string(bytes: &[u8], i: usize) -> Option<usize> {
    let quote = bytes[i];
    let mut j = i + 1;
    while j < bytes.len() {
        match bytes[j] {
            b'\\' => j += 2,
            b if b == quote => return Some(j + 1),
            _ => j += 1,
        }
    }
    None
}

fn end_of_raw(text: &str) -> usize {
    let mut from = 0;
    while let Some(i) = text[from..].find("{%").map(|i| i + from) {
        let word = text[i + 2..].trim_start_matches(|c: char| c == '-' || c == '+' || c.is_whitespace());
        if word.starts_with("endraw") {
            return i;
        }
        from = i + 2;
    }
    text.len()
}

/// Copies a tag, turning `"literal" % x` into `("literal"|format(x))`.
fn percent(tag: &str, out: &mut String) {
    let bytes = tag.as_bytes();
    let mut from = 0;
    let mut i = 2;
    while i < bytes.len() {
        if !matches!(bytes[i], b'\'' | b'"') {
            i += 1;
            continue;
        }
        let Some(end) = end_of_string(bytes, i) else { break };
        let gap = tag[end..].len() - tag[end..].trim_start().len();
        let op = end + gap;
        if bytes.get(op) == Some(&b'%') && bytes.get(op + 1) != Some(&b'}') {
            let arg = op + 1 + (tag[op + 1..].len() - tag[op + 1..].trim_start().len());
            let stop = end_of_operand(bytes, arg);
            let operand = &tag[arg..stop];
            let inner = operand.strip_prefix('(').and_then(|o| o.strip_suffix(')')).unwrap_or(operand).trim();
            out.push_str(&tag[from..i]);
            out.push_str(&format!("({}|format({inner}))", &tag[i..end]));
            from = stop;
            i = stop;
        } else {
            i = end;
        }
    }
    out.push_str(&tag[from..]);
}

/// Copies a `set` tag, putting what stands behind its `=` through the filter. A block's `set` has none.
fn kept(tag: &str, out: &mut String) {
    let bytes = tag.as_bytes();
    let (mut i, mut depth, mut to) = (2, 0usize, tag.len() - 2);
    if bytes[to - 1] == b'-' || bytes[to - 1] == b'+' {
        to -= 1;
    }
    while i < to {
        match bytes[i] {
            b'\'' | b'"' => {
                let Some(e) = end_of_string(bytes, i) else { break };
                i = e;
                continue;
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b'=' if depth == 0 => {
                out.push_str(&format!("{}({})|{KEPT} {}", &tag[..=i], &tag[i + 1..to], &tag[to..]));
                return;
            }
            _ => {}
        }
        i += 1;
    }
    out.push_str(tag);
}

/// Copies a `for` tag, putting what it runs over through the filter: from `in` to the end, `if` or `recursive`.
fn looped(tag: &str, out: &mut String) {
    let bytes = tag.as_bytes();
    let word = |i: usize, w: &str| {
        let side = |b: Option<&u8>| b.is_none_or(|b| !(b.is_ascii_alphanumeric() || *b == b'_' || *b >= 128));
        bytes[i..].starts_with(w.as_bytes()) && side(bytes.get(i.wrapping_sub(1))) && side(bytes.get(i + w.len()))
    };
    let (mut i, mut depth, mut from, mut to) = (2, 0usize, None, tag.len() - 2);
    if bytes[to - 1] == b'-' || bytes[to - 1] == b'+' {
        to -= 1;
    }
    while i < to {
        match bytes[i] {
            b'\'' | b'"' => {
                let Some(e) = end_of_string(bytes, i) else { break };
                i = e;
                continue;
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b'i' if depth == 0 && from.is_none() && word(i, "in") => from = Some(i + 2),
            b'i' if depth == 0 && from.is_some() && word(i, "if") => to = i,
            b'r' if depth == 0 && from.is_some() && word(i, "recursive") => to = i,
            _ => {}
        }
        i += 1;
    }
    match from {
        Some(from) if from <= to => {
            out.push_str(&format!("{}({})|{LOOPED} {}", &tag[..from], &tag[from..to], &tag[to..]))
        }
        _ => out.push_str(tag),
    }
}

/// One operand: a bracketed expression, a string, or a name or number, with what is attached to it.
fn end_of_operand(bytes: &[u8], from: usize) -> usize {
    let mut i = from;
    let mut depth = 0usize;
    while i < bytes.len() {
        match bytes[i] {
            b'\'' | b'"' => match end_of_string(bytes, i) {
                Some(e) => {
                    i = e;
                    continue;
                }
                None => return bytes.len(),
            },
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' if depth == 0 => return i,
            b')' | b']' | b'}' => depth -= 1,
            b if depth == 0 && !(b.is_ascii_alphanumeric() || b == b'_' || b == b'.' || b >= 128) => return i,
            _ => {}
        }
        i += 1;
    }
    i
}
