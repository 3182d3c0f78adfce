//! JSON Schema, as far as it can be enforced.
//!
//! llguidance enforces many keywords, refuses some, and does not see others. Here every schema is walked first, along
//! its references, and written anew with only what is known to hold: a keyword that cannot be enforced is refused by
//! name and place, or left out and reported if that was asked for. What the new schema says is never more than what the
//! old one said, sometimes a little less (numbers beyond what a double holds, for example).

use crate::border::{fail, Fail, Res, FFWD_ARGUMENT, FFWD_TOO_LONG, FFWD_UNSUPPORTED};
use crate::formats;
use crate::grammar::{limits, with_options};
use crate::schema_numbers as numbers;
use llguidance::derivre::RegexBuilder;
use llguidance::{regex_to_lark, GrammarBuilder, JsonCompileOptions};
use serde_json::{json, Map, Value};

/// Schemas inside one schema, references followed.
const NODES: usize = 20_000;
/// How often something that llguidance refuses is looked for.
const ROUNDS: usize = 64;
/// Counts (minItems, minLength, ...) beyond this are no limits that a reply could meet.
const COUNT: u64 = 1_000_000;

const TYPES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];

/// Keywords of any draft whose meaning would be lost if they were passed over.
const REFUSED: [&str; 7] =
    ["$dynamicRef", "$recursiveRef", "dependentSchemas", "dependentRequired", "dependencies", "disallow", "extends"];

pub fn parse(text: &str) -> Res<Value> {
    match serde_json::from_str::<Value>(text) {
        Ok(v) => Ok(v),
        Err(e) => fail(FFWD_ARGUMENT, format!("the schema is not valid JSON: {e}")),
    }
}

/// A regular expression of a schema: what llguidance cannot do, and what it would read in another way than ECMA 262.
pub fn check_regex(pattern: &str) -> Res<()> {
    let mut in_class = false;
    let mut rest = pattern.char_indices();
    while let Some((i, c)) = rest.next() {
        let next = &pattern[i + c.len_utf8()..];
        match c {
            '\\' => {
                if rest.next().is_none() {
                    return fail(FFWD_ARGUMENT, "a regular expression that ends inside an escape");
                }
            }
            '[' if !in_class => {
                in_class = true;
                if next.starts_with(']') || next.starts_with("^]") {
                    return fail(FFWD_UNSUPPORTED, "an empty character class");
                }
            }
            ']' => in_class = false,
            '[' => return fail(FFWD_UNSUPPORTED, "'[' inside a character class has to be written '\\['"),
            '&' | '-' | '~' if in_class && next.starts_with(c) => {
                return fail(FFWD_UNSUPPORTED, format!("'{c}{c}' inside a character class"));
            }
            _ => {}
        }
    }
    match RegexBuilder::new().mk_regex_for_serach(&regex_to_lark(pattern, "dw")) {
        Ok(_) => Ok(()),
        Err(e) => {
            let words = e.to_string();
            let line = words.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("").trim().to_string();
            fail(FFWD_UNSUPPORTED, format!("a regular expression that cannot be enforced ({line})"))
        }
    }
}

/// One schema, its parts first: where it stood, and what became of it.
type Part = (String, Value);

struct Walk<'a> {
    root: &'a Value,
    relax: bool,
    relaxed: Vec<String>,
    /// (place, keyword) that were found to be refused further down; "" is the whole schema.
    dropped: &'a [(String, String)],
    nested_ids: bool,
    nodes: usize,
    /// Places that are referred to; their index is their name.
    targets: Vec<String>,
    multiples: Vec<f64>,
    parts: Option<Vec<Part>>,
}

/// The schema anew, or what cannot be enforced in it.
pub fn check(schema: &Value, relax: bool, relaxed: &mut Vec<String>) -> Res<Value> {
    let mut dropped: Vec<(String, String)> = Vec::new();
    for _ in 0..ROUNDS {
        let mut walk = Walk::new(schema, relax, &dropped);
        let new = walk.all()?;
        let found = std::mem::take(&mut walk.relaxed);
        let Err(e) = try_build(&new) else {
            if !finite(&new) {
                return fail(FFWD_ARGUMENT, "nothing can match the schema: it would never end");
            }
            relaxed.extend(found);
            return Ok(new);
        };
        if e.contains("Unsatisfiable") {
            return fail(FFWD_ARGUMENT, format!("nothing can match the schema: {}", first_line(&e)));
        }
        if e.contains("too large") || e.contains("limit") {
            return fail(FFWD_TOO_LONG, format!("the schema is too large: {}", first_line(&e)));
        }
        let (place, keyword) = locate(schema, relax, &dropped, &e)?;
        if !relax {
            let at = if keyword.is_empty() { place } else { format!("{place}/{keyword}") };
            let why = match keyword.as_str() {
                "oneOf" => "the alternatives cannot be told apart by type or by constants of required properties",
                _ => first_line(&e),
            };
            return fail(FFWD_UNSUPPORTED, format!("{}: {why}", shown(&at)));
        }
        dropped.push((place, keyword));
    }
    fail(FFWD_UNSUPPORTED, "too much of the schema cannot be enforced")
}

fn first_line(e: &str) -> &str {
    e.lines().next().unwrap_or("").trim()
}

fn shown(pointer: &str) -> &str {
    if pointer.is_empty() {
        "the schema"
    } else {
        pointer
    }
}

fn try_build(schema: &Value) -> Result<(), String> {
    let builder = GrammarBuilder::new(None, limits());
    match JsonCompileOptions::default().json_to_llg_with_overrides(builder, with_options(schema.clone(), false, false)) {
        Ok(_) => Ok(()),
        // The chain, innermost last: an unsatisfiable part may be wrapped in words of others.
        Err(e) => Err(e.chain().map(|c| c.to_string()).collect::<Vec<_>>().join("; ")),
    }
}

/// Finds the innermost schema that llguidance refuses for itself.
fn locate(schema: &Value, relax: bool, dropped: &[(String, String)], e: &str) -> Res<(String, String)> {
    let mut walk = Walk::new(schema, relax, dropped);
    walk.parts = Some(Vec::new());
    let new = walk.all()?;
    let defs = new.get("$defs").cloned().unwrap_or_else(|| json!({}));
    for (place, part) in walk.parts.take().unwrap_or_default() {
        let Value::Object(mut alone) = part else { continue };
        alone.insert("$defs".to_string(), defs.clone());
        match try_build(&Value::Object(alone.clone())) {
            Err(own) if !own.contains("Unsatisfiable") => {
                let keyword = blamed(&own, &alone);
                let known = dropped.iter().any(|d| d.0 == place && d.1 == keyword);
                return Ok((place, if known { String::new() } else { keyword }));
            }
            _ => {}
        }
    }
    fail(FFWD_UNSUPPORTED, format!("the schema cannot be enforced: {}", first_line(e)))
}

/// The keyword that a refusal of llguidance's is about.
fn blamed(e: &str, schema: &Map<String, Value>) -> String {
    let guess = if e.contains("oneOf") {
        "oneOf"
    } else if e.contains("min/maxProperties") {
        if schema.contains_key("minProperties") { "minProperties" } else { "maxProperties" }
    } else if e.contains("patternProperty") {
        "patternProperties"
    } else if e.contains("multipleOf") {
        "multipleOf"
    } else if e.contains("circular references") {
        "$ref"
    } else if e.contains("regex") {
        "pattern"
    } else {
        ""
    };
    if schema.contains_key(guess) { guess.to_string() } else { String::new() }
}

fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn trivial(v: &Value) -> bool {
    matches!(v, Value::Bool(true)) || v.as_object().is_some_and(Map::is_empty)
}

impl<'a> Walk<'a> {
    fn new(root: &'a Value, relax: bool, dropped: &'a [(String, String)]) -> Self {
        Walk {
            root,
            relax,
            relaxed: Vec::new(),
            dropped,
            nested_ids: has_nested_id(root, true),
            nodes: 0,
            targets: Vec::new(),
            multiples: Vec::new(),
            parts: None,
        }
    }

    fn all(&mut self) -> Res<Value> {
        let root = self.root;
        let mut new = self.schema("", root)?;
        let mut defs = Map::new();
        let mut i = 0;
        while i < self.targets.len() {
            let place = self.targets[i].clone();
            let target = root.pointer(&place).unwrap_or(&Value::Null);
            defs.insert(i.to_string(), self.schema(&place, target)?);
            i += 1;
        }
        if let (Some(map), false) = (new.as_object_mut(), defs.is_empty()) {
            map.insert("$defs".to_string(), Value::Object(defs));
        }
        Ok(new)
    }

    /// Says that a keyword cannot be enforced: an error, or a note that it is left out.
    fn refuse(&mut self, place: &str, keyword: &str, why: &str) -> Res<()> {
        let at = format!("{place}/{}", escape(keyword));
        if !self.relax {
            return fail(FFWD_UNSUPPORTED, format!("{at}: {why}"));
        }
        if !self.relaxed.contains(&at) {
            self.relaxed.push(at);
        }
        Ok(())
    }

    fn wrong<T>(&self, place: &str, keyword: &str, what: &str) -> Res<T> {
        fail(FFWD_ARGUMENT, format!("{place}/{}: expected {what}", escape(keyword)))
    }

    fn schema(&mut self, place: &str, v: &Value) -> Res<Value> {
        self.nodes += 1;
        if self.nodes > NODES {
            return fail(FFWD_TOO_LONG, format!("the schema has more than {NODES} parts"));
        }
        let map = match v {
            Value::Bool(_) => return Ok(v.clone()),
            Value::Object(map) => map,
            _ => return fail(FFWD_ARGUMENT, format!("{}: expected a schema", shown(place))),
        };
        let types = self.types(place, map)?;
        let mut out = Map::new();
        if self.dropped.iter().any(|d| d.0 == place && d.1.is_empty()) {
            self.relaxed.push(place.to_string());
            if let Some(t) = map.get("type") {
                out.insert("type".to_string(), t.clone());
            }
            return Ok(Value::Object(out));
        }
        for (k, v) in map {
            if self.dropped.iter().any(|d| d.0 == place && d.1 == *k) {
                self.relaxed.push(format!("{place}/{}", escape(k)));
                if k == "oneOf" {
                    let any = self.list(place, "oneOf", v)?;
                    out.insert("anyOf".to_string(), any);
                } else if k == "$ref" {
                    continue;
                }
                continue;
            }
            self.keyword(place, k, v, map, &types, &mut out)?;
        }
        let new = Value::Object(out);
        if let Some(parts) = &mut self.parts {
            parts.push((place.to_string(), new.clone()));
        }
        Ok(new)
    }

    /// The types a value may have; all without the keyword.
    fn types(&self, place: &str, map: &Map<String, Value>) -> Res<Vec<String>> {
        let names: Vec<&Value> = match map.get("type") {
            None => return Ok(TYPES.iter().map(|s| s.to_string()).collect()),
            Some(Value::Array(list)) => list.iter().collect(),
            Some(one) => vec![one],
        };
        let mut out = Vec::new();
        for name in names {
            match name.as_str() {
                Some(n) if TYPES.contains(&n) => out.push(n.to_string()),
                _ => return self.wrong(place, "type", "a type's name, or a list of them"),
            }
        }
        if out.is_empty() {
            return self.wrong(place, "type", "at least one type");
        }
        Ok(out)
    }

    fn keyword(
        &mut self,
        place: &str,
        k: &str,
        v: &Value,
        map: &Map<String, Value>,
        types: &[String],
        out: &mut Map<String, Value>,
    ) -> Res<()> {
        let at = format!("{place}/{}", escape(k));
        match k {
            "type" => {
                out.insert(k.to_string(), v.clone());
            }
            "$ref" => self.reference(place, v, out)?,
            "allOf" | "anyOf" | "oneOf" => {
                let list = self.list(place, k, v)?;
                add(out, k, list);
            }
            "not" if matches!(v, Value::Bool(false)) => {}
            "not" => self.refuse(place, k, "negation cannot be enforced")?,
            "if" if map.contains_key("then") || map.contains_key("else") => {
                self.refuse(place, k, "conditions cannot be enforced")?;
            }
            "const" => {
                if self.literal(place, k, v)? {
                    out.insert(k.to_string(), v.clone());
                }
            }
            "enum" => {
                let Some(list) = v.as_array() else { return self.wrong(place, k, "a list of values") };
                if list.iter().try_fold(true, |ok, v| Ok::<_, Fail>(ok && self.literal(place, k, v)?))? {
                    out.insert(k.to_string(), v.clone());
                }
            }
            "properties" | "patternProperties" => self.members(place, k, v, out)?,
            "additionalProperties" => {
                let new = self.schema(&at, v)?;
                out.insert(k.to_string(), new);
            }
            "propertyNames" if trivial(v) => {}
            "propertyNames" => self.refuse(place, k, "names of properties cannot be constrained")?,
            "required" => {
                let ok = v.as_array().is_some_and(|l| l.iter().all(Value::is_string));
                if !ok {
                    return self.wrong(place, k, "a list of names");
                }
                out.insert(k.to_string(), v.clone());
            }
            "minProperties" | "maxProperties" => self.property_count(place, k, v, map, out)?,
            "items" | "prefixItems" | "additionalItems" | "unevaluatedItems" | "unevaluatedProperties" => {
                self.rest(place, k, v, map, out)?;
            }
            "minItems" | "maxItems" | "minLength" | "maxLength" => {
                let n = self.number_of(place, k, v)?;
                if k.starts_with("min") && n > COUNT {
                    return fail(FFWD_TOO_LONG, format!("{at}: more than {COUNT}"));
                }
                out.insert(k.to_string(), json!(n.min(COUNT)));
            }
            "contains" => {
                let at_least = map.get("minContains").and_then(Value::as_f64).unwrap_or(1.0);
                if at_least > 0.0 || map.contains_key("maxContains") {
                    self.refuse(place, k, "what a list contains cannot be enforced")?;
                }
            }
            "uniqueItems" if v.as_bool() == Some(false) => {}
            "uniqueItems" if v.as_bool() == Some(true) => {
                if map.get("maxItems").and_then(Value::as_f64).is_none_or(|n| n > 1.0) {
                    self.refuse(place, k, "that items differ cannot be enforced")?;
                }
            }
            "uniqueItems" => return self.wrong(place, k, "true or false"),
            "pattern" => {
                let Some(p) = v.as_str() else { return self.wrong(place, k, "a regular expression") };
                match check_regex(p) {
                    Ok(()) => add_string_rule(out, json!({"pattern": p})),
                    Err(f) => self.refuse(place, k, &f.text)?,
                }
            }
            "format" => self.format(place, v, types, out)?,
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => {
                match numbers::bound(k, v, map) {
                    Ok(Some((k, n))) => {
                        out.insert(k.to_string(), n);
                    }
                    Ok(None) => {}
                    Err(Some(why)) => self.refuse(place, k, why)?,
                    Err(None) => return self.wrong(place, k, "a number"),
                }
            }
            "multipleOf" => match numbers::multiple(v, &mut self.multiples) {
                Ok(()) => {
                    out.insert(k.to_string(), v.clone());
                }
                Err(Some(why)) => self.refuse(place, k, why)?,
                Err(None) => return self.wrong(place, k, "a number greater than 0"),
            },
            _ if REFUSED.contains(&k) => {
                if !v.as_object().is_some_and(Map::is_empty) {
                    self.refuse(place, k, "this keyword cannot be enforced")?;
                }
            }
            // Annotations, and words that no draft gives a meaning.
            _ => {}
        }
        Ok(())
    }

    fn list(&mut self, place: &str, k: &str, v: &Value) -> Res<Value> {
        let Some(list) = v.as_array().filter(|l| !l.is_empty()) else {
            return self.wrong(place, k, "a list of schemas");
        };
        let mut new = Vec::with_capacity(list.len());
        for (i, s) in list.iter().enumerate() {
            new.push(self.schema(&format!("{place}/{k}/{i}"), s)?);
        }
        Ok(Value::Array(new))
    }

    fn members(&mut self, place: &str, k: &str, v: &Value, out: &mut Map<String, Value>) -> Res<()> {
        let Some(map) = v.as_object() else { return self.wrong(place, k, "an object of schemas") };
        let mut new = Map::new();
        for (name, s) in map {
            let at = format!("{place}/{k}/{}", escape(name));
            if k == "patternProperties" {
                if let Err(f) = check_regex(name) {
                    self.refuse(&format!("{place}/{k}"), name, &f.text)?;
                    continue;
                }
            }
            new.insert(name.clone(), self.schema(&at, s)?);
        }
        out.insert(k.to_string(), Value::Object(new));
        Ok(())
    }

    fn reference(&mut self, place: &str, v: &Value, out: &mut Map<String, Value>) -> Res<()> {
        let Some(text) = v.as_str() else { return self.wrong(place, "$ref", "a text") };
        if self.nested_ids {
            return self.refuse(place, "$ref", "references beside a second $id are not followed");
        }
        let own = self.root.get("$id").and_then(Value::as_str).map(|s| s.trim_end_matches('#')).unwrap_or("");
        let local = if own.is_empty() { text } else { text.strip_prefix(own).unwrap_or(text) };
        let Some(target) = (if local.is_empty() { Some("") } else { local.strip_prefix('#') }) else {
            return self.refuse(place, "$ref", "only references within the schema are followed");
        };
        let Some(target) = percent_decoded(target) else {
            return self.wrong(place, "$ref", "a valid reference");
        };
        let pointer = if target.is_empty() || target.starts_with('/') {
            self.root.pointer(&target).map(|_| target)
        } else {
            let mut found = Vec::new();
            find_anchors(self.root, &target, "", &mut found);
            if found.len() > 1 {
                return self.refuse(place, "$ref", "more than one place has this anchor");
            }
            found.pop()
        };
        let Some(pointer) = pointer else {
            return fail(FFWD_ARGUMENT, format!("{place}/$ref: there is no {text}"));
        };
        let name = if pointer.is_empty() {
            "#".to_string()
        } else {
            let i = self.targets.iter().position(|t| *t == pointer).unwrap_or_else(|| {
                self.targets.push(pointer);
                self.targets.len() - 1
            });
            format!("#/$defs/{i}")
        };
        out.insert("$ref".to_string(), json!(name));
        Ok(())
    }

    /// Whether a value can be written: false if it is left out.
    fn literal(&mut self, place: &str, k: &str, v: &Value) -> Res<bool> {
        match v {
            Value::Number(n) if !numbers::exact(n) => {
                self.refuse(place, k, "integers beyond 2^53 cannot be enforced")?;
                Ok(false)
            }
            Value::String(s) if s.chars().any(unwritten) => {
                self.refuse(place, k, "control characters in strings cannot be enforced")?;
                Ok(false)
            }
            Value::Array(list) => {
                for v in list {
                    if !self.literal(place, k, v)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Value::Object(map) => {
                for v in map.values() {
                    if !self.literal(place, k, v)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => Ok(true),
        }
    }

    fn number_of(&self, place: &str, k: &str, v: &Value) -> Res<u64> {
        match v.as_u64().or_else(|| v.as_f64().filter(|f| f.fract() == 0.0 && *f >= 0.0).map(|f| f as u64)) {
            Some(n) => Ok(n),
            None => self.wrong(place, k, "a count"),
        }
    }

    /// Counting properties works where nothing listed is optional. Names may be repeated where they are free, so only
    /// one free name can be asked for.
    fn property_count(
        &mut self,
        place: &str,
        k: &str,
        v: &Value,
        map: &Map<String, Value>,
        out: &mut Map<String, Value>,
    ) -> Res<()> {
        let n = self.number_of(place, k, v)?;
        let mut required: Vec<&str> = map.get("required").and_then(Value::as_array).map_or(Vec::new(), |l| {
            l.iter().filter_map(Value::as_str).collect()
        });
        required.sort_unstable();
        required.dedup();
        let most = required.len() as u64;
        if k == "minProperties" && n <= most {
            return Ok(());
        }
        let listed = map.get("properties").and_then(Value::as_object);
        let optional = listed.is_some_and(|p| p.keys().any(|name| !required.contains(&name.as_str())));
        let closed = map.get("additionalProperties").is_some_and(|a| a.as_bool() == Some(false))
            && !map.contains_key("patternProperties");
        let single = closed && if k == "minProperties" { n == most + 1 } else { n == most + 1 };
        let other = if k == "minProperties" { "maxProperties" } else { "minProperties" };
        let alone = !map.contains_key(other);
        if k == "minProperties" && n > most + 1 && !(closed && !optional) {
            return self.refuse(place, k, "at most one free name can be asked for");
        }
        if optional && !(single && alone) {
            return self.refuse(place, k, "properties are only counted where all that are listed are required");
        }
        out.insert(k.to_string(), json!(n.min(COUNT)));
        Ok(())
    }

    /// `items` and its relatives of all drafts, as `prefixItems` and `items`.
    fn rest(&mut self, place: &str, k: &str, v: &Value, map: &Map<String, Value>, out: &mut Map<String, Value>) -> Res<()> {
        let at = format!("{place}/{k}");
        let old = map.get("items").is_some_and(Value::is_array);
        let beside = ["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas", "contains"]
            .iter()
            .any(|k| map.contains_key(*k));
        match k {
            "items" if old => {
                if map.contains_key("prefixItems") {
                    return self.refuse(place, k, "a list of schemas beside prefixItems");
                }
                if !v.as_array().is_some_and(Vec::is_empty) {
                    let list = self.list(place, k, v)?;
                    out.insert("prefixItems".to_string(), list);
                }
            }
            "items" => {
                let new = self.schema(&at, v)?;
                out.insert(k.to_string(), new);
            }
            "prefixItems" => {
                let list = self.list(place, k, v)?;
                out.insert(k.to_string(), list);
            }
            "additionalItems" if old => {
                let new = self.schema(&at, v)?;
                out.insert("items".to_string(), new);
            }
            "additionalItems" => {}
            "unevaluatedItems" => {
                let moot = map.contains_key("items") && (!old || map.contains_key("additionalItems"));
                if trivial(v) || moot {
                } else if beside {
                    self.refuse(place, k, "this keyword beside others that apply schemas cannot be enforced")?;
                } else {
                    let new = self.schema(&at, v)?;
                    out.insert("items".to_string(), new);
                }
            }
            _ => {
                if trivial(v) || map.contains_key("additionalProperties") {
                } else if beside {
                    self.refuse(place, k, "this keyword beside others that apply schemas cannot be enforced")?;
                } else {
                    let new = self.schema(&at, v)?;
                    out.insert("additionalProperties".to_string(), new);
                }
            }
        }
        Ok(())
    }

    fn format(&mut self, place: &str, v: &Value, types: &[String], out: &mut Map<String, Value>) -> Res<()> {
        let Some(name) = v.as_str() else { return self.wrong(place, "format", "a name") };
        if !types.iter().any(|t| t == "string") {
            return Ok(()); // formats are about strings
        }
        match formats::rule(name) {
            Some(rules) => {
                for r in rules {
                    add_string_rule(out, r);
                }
                Ok(())
            }
            None => self.refuse(place, "format", &format!("the format {name:.40} is not known")),
        }
    }
}

/// Characters that strings cannot have without \u.
fn unwritten(c: char) -> bool {
    (c < ' ' && !"\u{8}\u{c}\n\r\t".contains(c)) || c == '\u{7f}'
}

/// Adds to a list keyword, which may have been begun by a rule.
fn add(out: &mut Map<String, Value>, k: &str, list: Value) {
    match (out.get_mut(k), list) {
        (Some(Value::Array(old)), Value::Array(new)) => old.extend(new),
        (_, list) => {
            out.insert(k.to_string(), list);
        }
    }
}

/// A rule about strings: beside the schema's own keywords if they are free, in its allOf otherwise.
fn add_string_rule(out: &mut Map<String, Value>, rule: Value) {
    let Value::Object(rule) = rule else { return };
    if rule.keys().any(|k| out.contains_key(k)) || rule.contains_key("maxLength") {
        add(out, "allOf", json!([rule]));
    } else {
        out.extend(rule);
    }
}

fn has_nested_id(v: &Value, top: bool) -> bool {
    match v {
        Value::Object(map) => {
            (!top && map.get("$id").is_some_and(Value::is_string)) || map.values().any(|v| has_nested_id(v, false))
        }
        Value::Array(list) => list.iter().any(|v| has_nested_id(v, false)),
        _ => false,
    }
}

fn find_anchors(v: &Value, name: &str, place: &str, found: &mut Vec<String>) {
    match v {
        Value::Object(map) => {
            if map.get("$anchor").and_then(Value::as_str) == Some(name) {
                found.push(place.to_string());
            }
            // What stands in these is a value, not a schema.
            for (k, v) in map.iter().filter(|(k, _)| !["const", "enum", "default", "examples"].contains(&k.as_str())) {
                find_anchors(v, name, &format!("{place}/{}", escape(k)), found);
            }
        }
        Value::Array(list) => {
            for (i, v) in list.iter().enumerate() {
                find_anchors(v, name, &format!("{place}/{i}"), found);
            }
        }
        _ => {}
    }
}

fn percent_decoded(s: &str) -> Option<String> {
    let mut out = Vec::with_capacity(s.len());
    let mut rest = s.bytes();
    while let Some(b) = rest.next() {
        if b == b'%' {
            let hex = [rest.next()?, rest.next()?];
            out.push(u8::from_str_radix(std::str::from_utf8(&hex).ok()?, 16).ok()?);
        } else {
            out.push(b);
        }
    }
    String::from_utf8(out).ok()
}

/// Whether some value of the schema is finite: a list of required parts that leads back to itself has none.
fn finite(schema: &Value) -> bool {
    let mut budget = 200_000usize;
    ends(schema, schema, &mut Vec::new(), &mut budget)
}

fn ends<'v>(root: &'v Value, v: &'v Value, inside: &mut Vec<&'v str>, budget: &mut usize) -> bool {
    *budget = budget.saturating_sub(1);
    let map = match v {
        Value::Bool(b) => return *b,
        Value::Object(map) if *budget > 0 => map,
        _ => return true,
    };
    if let Some(name) = map.get("$ref").and_then(Value::as_str) {
        if inside.contains(&name) {
            return false;
        }
        let target = root.pointer(name.trim_start_matches('#')).unwrap_or(&Value::Null);
        inside.push(name);
        let ok = ends(root, target, inside, budget);
        inside.pop();
        if !ok {
            return false;
        }
    }
    let list = |k: &str| map.get(k).and_then(Value::as_array).map_or(&[][..], |l| l);
    if !list("allOf").iter().all(|s| ends(root, s, inside, budget)) {
        return false;
    }
    for k in ["anyOf", "oneOf"] {
        if !list(k).is_empty() && !list(k).iter().any(|s| ends(root, s, inside, budget)) {
            return false;
        }
    }
    let mut types: Vec<&str> = list("type").iter().filter_map(Value::as_str).collect();
    types.extend(map.get("type").and_then(Value::as_str));
    let only_parts = !types.is_empty() && types.iter().all(|t| *t == "object" || *t == "array");
    if !only_parts || map.contains_key("const") || map.contains_key("enum") {
        return true;
    }
    let props = map.get("properties");
    let object = types.contains(&"object")
        && list("required").iter().filter_map(Value::as_str).all(|name| {
            props.and_then(|p| p.get(name)).is_none_or(|s| ends(root, s, inside, budget))
        });
    object || types.contains(&"array") && {
        let least = map.get("minItems").and_then(Value::as_u64).unwrap_or(0) as usize;
        let front = list("prefixItems");
        front.iter().take(least).all(|s| ends(root, s, inside, budget))
            && (least <= front.len() || map.get("items").is_none_or(|s| ends(root, s, inside, budget)))
    }
}
