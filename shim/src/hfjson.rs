//! A tokenizer from the text of a tokenizer.json.
//!
//! The library parses the file. Its added tokens are taken out of it and given to our splitter; a SentencePiece-style
//! pipeline (spaces as `▁`) is recognised and run by our own, since its first-space rule depends on where a part stands.

use crate::border::{fail, Res, FFWD_MODEL, FFWD_UNSUPPORTED};
use crate::special::{Special, Splitter};
use crate::tokenizer::{Joins, Merger, Pipe, Prefix, Tok};
use crate::vocab::{
    byte_of, spm_bytes, turn_ends, ByteLevel, Vocab, BYTE, CONTROL, NONE, NORMAL, UNUSED, USER_DEFINED,
};
use crate::words::Words;
use ahash::{AHashMap, AHashSet};
use serde_json::Value;
use tokenizers::{ModelWrapper, Tokenizer};

pub fn build(json: &[u8], named_ends: &[i32]) -> Res<Tok> {
    let mut doc: Value = match serde_json::from_slice(json) {
        Ok(v) => v,
        Err(e) => return fail(FFWD_MODEL, format!("tokenizer.json is not JSON: {e}")),
    };
    let model = doc["model"]["type"].as_str().unwrap_or("BPE").to_string();
    if model != "BPE" {
        return fail(FFWD_UNSUPPORTED, format!("tokenizer.json has a {model} model; only BPE is supported"));
    }
    let added = added_tokens(&doc)?;
    let shape = Shape::of(&doc);
    let frame = Frame::of(&doc, &added);
    let table = table(&doc, &added, &shape)?;
    let (mut vocab, ids) = table;
    doc["added_tokens"] = Value::Array(Vec::new());
    doc["post_processor"] = Value::Null;
    doc["truncation"] = Value::Null;
    doc["padding"] = Value::Null;
    doc["model"]["dropout"] = Value::Null; // of training: the same text would have other ids each time
    let unk = doc["model"]["unk_token"].as_str().and_then(|u| ids.get(u).copied()).map_or(NONE, |i| i as i32);
    let mut joins = Joins::default();
    if shape.spm {
        doc["normalizer"] = Value::Null;
        doc["pre_tokenizer"] = Value::Null;
        if let Some(v) = doc["model"]["vocab"].as_object() {
            v.keys().for_each(|t| joins.note(t));
        }
    }
    drop_specials(&mut doc, &added);
    let text = serde_json::to_vec(&doc).unwrap_or_default();
    drop(doc);
    let whole = match Tokenizer::from_bytes(&text) {
        Ok(t) => t,
        Err(e) => return fail(FFWD_MODEL, format!("tokenizer.json cannot be used: {e}")),
    };
    drop(text);
    let pipe = if shape.spm {
        let ModelWrapper::BPE(bpe) = whole.get_model().clone() else {
            return fail(FFWD_MODEL, "tokenizer.json has no BPE model");
        };
        Pipe::Spm { merger: Merger::Listed(Words::new(bpe, vocab.len())), patterns: Vec::new(), joins }
    } else {
        Pipe::Library(Box::new(whole))
    };
    let ends = turn_ends(&mut vocab, &[named_ends, &[frame.eos]].concat(), |t| ids.get(t).copied());
    let mut specials: Vec<Special> = added.iter().map(|a| a.special.clone()).collect();
    for s in &mut specials {
        s.control = vocab.kind(s.id as usize) == CONTROL;
    }
    Ok(Tok {
        pipe,
        vocab,
        splitter: Splitter::new(specials)?,
        prefix: shape.prefix,
        prefix_unless_space: shape.unless_space,
        bos: frame.bos,
        eos: named_ends.first().copied().unwrap_or(if frame.eos != NONE {
            frame.eos
        } else {
            ends.first().copied().unwrap_or(NONE)
        }),
        unk,
        pad: NONE,
        ends,
        add_bos: frame.add_bos,
        add_eos: frame.add_eos,
    })
}

struct Added {
    special: Special,
}

fn added_tokens(doc: &Value) -> Res<Vec<Added>> {
    let mut added = Vec::new();
    for t in doc["added_tokens"].as_array().into_iter().flatten() {
        let (Some(id), Some(text)) = (t["id"].as_u64(), t["content"].as_str()) else {
            return fail(FFWD_MODEL, "an added token in tokenizer.json has no id or content");
        };
        let flag = |name: &str| t[name].as_bool().unwrap_or(false);
        added.push(Added {
            special: Special {
                id: id as u32,
                text: text.to_string(),
                control: flag("special"),
                lstrip: flag("lstrip"),
                rstrip: flag("rstrip"),
                single_word: flag("single_word"),
            },
        });
    }
    Ok(added)
}

/// Added tokens that the model's own vocabulary also holds must not come out of plain text. A word nothing merges into
/// is only found whole, which `ignore_merges` does; the unknown token stays, the model needs it.
fn drop_specials(doc: &mut Value, added: &[Added]) {
    let unk = doc["model"]["unk_token"].as_str().unwrap_or("").to_string();
    let merged: ahash::AHashSet<String> = doc["model"]["merges"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|m| match m {
            Value::String(s) => Some(s.replacen(' ', "", 1)),
            Value::Array(p) => Some(format!("{}{}", p.first()?.as_str()?, p.get(1)?.as_str()?)),
            _ => None,
        })
        .collect();
    if let Some(v) = doc["model"]["vocab"].as_object_mut() {
        for a in added {
            let t = &a.special.text;
            if a.special.control && *t != unk && !merged.contains(t) && t.chars().count() > 1 {
                v.shift_remove(t);
            }
        }
    }
}

/// What kind of pipeline the file describes.
struct Shape {
    spm: bool,
    byte_level: bool,
    prefix: Prefix,
    unless_space: bool,
}

impl Shape {
    fn of(doc: &Value) -> Self {
        let steps = |v: &Value, list: &str| -> Vec<Value> {
            match v["type"].as_str() {
                None => Vec::new(),
                Some("Sequence") => v[list].as_array().cloned().unwrap_or_default(),
                Some(_) => vec![v.clone()],
            }
        };
        let norm = steps(&doc["normalizer"], "normalizers");
        let pre = steps(&doc["pre_tokenizer"], "pretokenizers");
        let dec = steps(&doc["decoder"], "decoders");
        let is = |v: &Value, t: &str| v["type"] == t;
        let byte_level = pre.iter().chain(&dec).any(|v| is(v, "ByteLevel"));
        let to_bar = |v: &Value| is(v, "Replace") && v["pattern"]["String"] == " " && v["content"] == "\u{2581}";
        let prepend = norm.iter().any(|v| is(v, "Prepend") && v["prepend"] == "\u{2581}");
        let plain_norm = norm.iter().all(|v| to_bar(v) || (is(v, "Prepend") && v["prepend"] == "\u{2581}"));
        let split_space = |v: &Value| is(v, "Split") && v["pattern"]["String"] == " ";
        let meta = pre.iter().find(|v| is(v, "Metaspace"));
        let barred = norm.iter().any(to_bar) && pre.iter().all(split_space);
        let metaspaced = norm.is_empty() && pre.len() == 1 && meta.is_some();
        let strips = dec.iter().any(|v| is(v, "Strip") && v["start"].as_u64().unwrap_or(0) > 0);
        let scheme = match meta {
            Some(m) => match m["prepend_scheme"].as_str() {
                Some("never") => Prefix::Never,
                Some("first") => Prefix::First,
                Some(_) => Prefix::EachPart,
                None if m["add_prefix_space"] == false => Prefix::Never,
                None => Prefix::EachPart,
            },
            None if prepend => Prefix::EachPart,
            None if strips => Prefix::First,
            None => Prefix::Never,
        };
        // Metaspace with `split` cuts before every ▁ on its own; our cuts are exact only if tokens do not join there,
        // and then both agree.
        Shape {
            spm: !byte_level && plain_norm && (barred || metaspaced),
            byte_level,
            prefix: scheme,
            unless_space: meta.is_some(),
        }
    }
}

/// What the post-processor puts around a text.
struct Frame {
    bos: i32,
    eos: i32,
    add_bos: bool,
    add_eos: bool,
}

impl Frame {
    fn of(doc: &Value, added: &[Added]) -> Self {
        let mut frame = Frame { bos: NONE, eos: NONE, add_bos: false, add_eos: false };
        let post = &doc["post_processor"];
        let steps: Vec<&Value> = match post["type"].as_str() {
            Some("Sequence") => post["processors"].as_array().into_iter().flatten().collect(),
            Some(_) => vec![post],
            None => Vec::new(),
        };
        let id = |text: &str| added.iter().find(|a| a.special.text == text).map_or(NONE, |a| a.special.id as i32);
        for step in steps.iter().filter(|s| s["type"] == "TemplateProcessing") {
            let mut behind = false;
            for item in step["single"].as_array().into_iter().flatten() {
                if item.get("Sequence").is_some() {
                    behind = true;
                } else if let Some(t) = item["SpecialToken"]["id"].as_str() {
                    let slot = if behind {
                        (&mut frame.eos, &mut frame.add_eos)
                    } else {
                        (&mut frame.bos, &mut frame.add_bos)
                    };
                    if *slot.0 == NONE && id(t) != NONE {
                        *slot.0 = id(t);
                        *slot.1 = true;
                    }
                }
            }
        }
        if frame.bos == NONE {
            const USUAL: [&str; 5] =
                ["<s>", "<bos>", "<|begin_of_text|>", "<|startoftext|>", "<｜begin▁of▁sentence｜>"];
            frame.bos = USUAL.iter().map(|t| id(t)).find(|&i| i != NONE).unwrap_or(NONE);
        }
        frame
    }
}

type Ids = AHashMap<String, u32>;

fn table(doc: &Value, added: &[Added], shape: &Shape) -> Res<(Vocab, Ids)> {
    let Some(words) = doc["model"]["vocab"].as_object() else {
        return fail(FFWD_MODEL, "tokenizer.json has no model.vocab");
    };
    let mut ids: Ids = AHashMap::with_capacity(words.len() + added.len());
    let mut given = AHashSet::with_capacity(words.len());
    for (text, id) in words {
        match id.as_u64() {
            Some(i) if i < (4 << 20) => {
                if !given.insert(i) {
                    return fail(FFWD_MODEL, format!("tokenizer.json gives \"{text}\" the id of another word, {i}"));
                }
                ids.insert(text.clone(), i as u32);
            }
            _ => return fail(FFWD_MODEL, format!("tokenizer.json gives \"{text}\" no valid id")),
        }
    }
    let mut kinds: AHashMap<u32, u8> = AHashMap::with_capacity(added.len());
    for a in added {
        if a.special.id >= 4 << 20 {
            return fail(FFWD_MODEL, "an added token in tokenizer.json has an impossible id");
        }
        ids.insert(a.special.text.clone(), a.special.id);
        kinds.insert(a.special.id, if a.special.control { CONTROL } else { USER_DEFINED });
    }
    let n = ids.values().max().map_or(0, |&m| m as usize + 1);
    let mut texts: Vec<&str> = vec![""; n];
    for (t, &i) in &ids {
        texts[i as usize] = t;
    }
    let alphabet = ByteLevel::new();
    let mut vocab = Vocab::with_capacity(n);
    let mut bytes = Vec::new();
    for (i, text) in texts.iter().enumerate() {
        let kind = match kinds.get(&(i as u32)) {
            Some(&k) => k,
            None if text.is_empty() => UNUSED,
            None if !shape.byte_level && byte_of(text).is_some() => BYTE,
            None => NORMAL,
        };
        match kind {
            CONTROL | USER_DEFINED => {
                bytes.clear();
                bytes.extend_from_slice(text.as_bytes());
            }
            _ if shape.byte_level => alphabet.decode(text, &mut bytes),
            k => spm_bytes(text, k, &mut bytes),
        }
        vocab.push(&bytes, kind);
    }
    vocab.shrink();
    Ok((vocab, ids))
}
