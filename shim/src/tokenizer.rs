//! A model's tokenizer: one `tokenizers` model without specials, our own splitter before it, our own byte table behind.
//!
//! Why not the library's whole pipeline: it matches specials in any text with a switch per instance, keeps alignments
//! that cost a hundred times the text, and decodes strings rather than bytes. The merging itself, which is what has to
//! be right and fast, is the library's.

use crate::border::{fail, Res, FFWD_ARGUMENT};
use crate::pretok::{block_at, cut, next_block, Pattern};
use crate::scored::{Scored, Scratch};
use crate::special::{Match, Part, Splitter};
use crate::vocab::{ByteLevel, Vocab, BYTE, NONE};
use crate::words::{pieces, Words};
use ahash::AHashSet;
use std::borrow::Cow;
use tokenizers::Tokenizer;

/// How text becomes words and words become ids.
pub enum Pipe {
    /// Cut by patterns, written in byte stand-ins, merged.
    ByteLevel { words: Words, patterns: Vec<Pattern>, alphabet: Box<ByteLevel> },
    /// Spaces written as `▁`, merged; words are cut where no token can reach across.
    Spm { merger: Merger, patterns: Vec<Pattern>, joins: Joins },
    /// A tokenizer.json whose pipeline is none of the above, run by the library.
    Library(Box<Tokenizer>),
}

/// Who merges the characters of a SentencePiece-style word.
pub enum Merger {
    /// By a list of merges.
    Listed(Words),
    /// By the tokens' scores.
    Scored(Scored),
}

/// When a first space is put before text, and taken off again when decoding.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Prefix {
    Never,
    First,
    /// At the start and behind every special token.
    EachPart,
}

pub struct Tok {
    pub pipe: Pipe,
    pub vocab: Vocab,
    pub splitter: Splitter,
    pub prefix: Prefix,
    /// Prefix only where the text does not begin with a space already (Metaspace does so, Prepend does not).
    pub prefix_unless_space: bool,
    pub bos: i32,
    pub eos: i32,
    pub unk: i32,
    pub pad: i32,
    pub ends: Vec<i32>,
    pub add_bos: bool,
    pub add_eos: bool,
}

pub(crate) const TRUSTED: u32 = 1;
pub(crate) const BOS: u32 = 2;
pub(crate) const INNER: u32 = 4;

/// What has to be said about a text with marks in it (see marks.rs).
#[derive(Clone, Copy)]
pub struct Marks {
    pub brk: char,
    pub quote: char,
}

impl Tok {
    pub fn encode(&self, text: &[u8], flags: u32, out: &mut Vec<i32>) -> Res<()> {
        let text = String::from_utf8_lossy(text);
        out.reserve(text.len() / 3 + 8);
        if flags & BOS != 0 && self.add_bos && self.bos != NONE {
            out.push(self.bos);
        }
        let which = if flags & TRUSTED != 0 { Match::All } else { Match::UserDefined };
        let mut at_start = flags & INNER == 0;
        self.encode_parts(&text, which, &mut at_start, true, out)
    }

    /// Encodes a rendering: control tokens without a mark are meant; what lies between is untrusted.
    pub fn encode_marked(&self, text: &[u8], marks: Option<Marks>, out: &mut Vec<i32>) -> Res<()> {
        let text = String::from_utf8_lossy(text);
        out.reserve(text.len() / 3 + 8);
        let mut at_start = true;
        let Some(marks) = marks else {
            self.encode_parts(&text, Match::All, &mut at_start, true, out)?;
            self.frame(out);
            return Ok(());
        };
        let mut first = true;
        self.splitter.split(&text, Match::Control, Some(marks.quote), |part| {
            match part {
                Part::Token(id) => {
                    out.push(id as i32);
                    at_start = true;
                }
                Part::Text(t) => {
                    let clean = t.replace([marks.brk, marks.quote], "");
                    self.encode_parts(&clean, Match::UserDefined, &mut at_start, first, out)?;
                }
            }
            first = false;
            Ok(())
        })?;
        self.frame(out);
        Ok(())
    }

    /// BOS once, where the model asks for it. Never EOS, whatever the metadata says: every text here is a prompt, which
    /// the model is to go on with, and `add_eos_token` is about texts that are complete.
    fn frame(&self, out: &mut Vec<i32>) {
        if self.add_bos && self.bos != NONE && out.first() != Some(&self.bos) {
            out.insert(0, self.bos);
        }
    }

    /// `at_start`: a first space may be due. `first`: nothing at all stands before this text.
    fn encode_parts(&self, text: &str, which: Match, at_start: &mut bool, first: bool, out: &mut Vec<i32>) -> Res<()> {
        let mut first = first;
        self.splitter.split(text, which, None, |part| {
            match part {
                Part::Token(id) => {
                    out.push(id as i32);
                    *at_start = true;
                }
                Part::Text(t) => {
                    let due = match self.prefix {
                        Prefix::Never => false,
                        Prefix::First => *at_start && first,
                        Prefix::EachPart => *at_start,
                    };
                    self.encode_text(t, due && !(self.prefix_unless_space && t.starts_with([' ', '\u{2581}'])), out)?;
                    *at_start = false;
                }
            }
            first = false;
            Ok(())
        })
    }

    fn encode_text(&self, text: &str, prefix: bool, out: &mut Vec<i32>) -> Res<()> {
        let mut rest = text;
        let mut prefix = prefix;
        let mut scratch = String::new();
        let mut work = Scratch::default();
        while !rest.is_empty() {
            let block;
            (block, rest) = match &self.pipe {
                Pipe::Spm { joins, .. } => joins.block(rest),
                _ => next_block(rest),
            };
            match &self.pipe {
                Pipe::ByteLevel { words, patterns, alphabet } => cut(patterns, block, &mut |word| {
                    if words.find(word, out) {
                        return Ok(());
                    }
                    alphabet.encode(word, &mut scratch);
                    words.merge(word, &scratch, out)
                })?,
                Pipe::Spm { merger, patterns, joins } => {
                    scratch.clear();
                    if prefix {
                        scratch.push('\u{2581}');
                    }
                    scratch.extend(block.chars().map(|c| if c == ' ' { '\u{2581}' } else { c }));
                    cut(patterns, &scratch, &mut |piece| {
                        joins.words(piece, &mut |w| match merger {
                            Merger::Listed(words) if words.find(w, out) => Ok(()),
                            Merger::Listed(words) => words.merge(w, w, out),
                            Merger::Scored(s) => pieces(w, &mut |p| {
                                s.merge(p, &mut work, out);
                                Ok(())
                            }),
                        })
                    })?;
                }
                Pipe::Library(t) => match t.encode_fast(block, false) {
                    Ok(e) => out.extend(e.get_ids().iter().map(|&i| i as i32)),
                    Err(e) => return fail(FFWD_ARGUMENT, format!("the text cannot be encoded: {e}")),
                },
            }
            prefix = false;
        }
        Ok(())
    }

    /// The bytes `id` adds to a text. `*lead` says that a first space may have to go, and is kept up to date.
    pub fn piece(&self, id: i32, show_special: bool, lead: &mut bool) -> &[u8] {
        if id < 0 || id as usize >= self.vocab.len() {
            return &[];
        }
        let id = id as usize;
        let bytes = self.vocab.bytes(id);
        let special = self.vocab.is_special(id);
        let apart = special || self.vocab.kind(id) == crate::vocab::USER_DEFINED;
        if apart {
            *lead = match self.prefix {
                Prefix::EachPart => true,
                Prefix::First => *lead && special && !show_special,
                Prefix::Never => false,
            };
            return if special && !show_special { &[] } else { bytes };
        }
        let strip = *lead && bytes.first() == Some(&b' ') && self.vocab.kind(id) != BYTE;
        *lead = false;
        if strip {
            &bytes[1..]
        } else {
            bytes
        }
    }

    pub fn decode(&self, ids: &[i32], show_special: bool) -> Res<Vec<u8>> {
        let mut raw = Vec::with_capacity(ids.len() * 4);
        let mut lead = self.prefix != Prefix::Never;
        for &id in ids {
            if id < 0 || id as usize >= self.vocab.len() {
                return fail(FFWD_ARGUMENT, format!("id {id} is outside the vocabulary of {}", self.vocab.len()));
            }
            raw.extend_from_slice(self.piece(id, show_special, &mut lead));
        }
        Ok(match String::from_utf8_lossy(&raw) {
            Cow::Borrowed(_) => raw,
            Cow::Owned(s) => s.into_bytes(),
        })
    }

    pub fn find_special(&self, text: &str) -> i32 {
        self.splitter.specials().iter().find(|s| s.text == text).map_or(NONE, |s| s.id as i32)
    }
}

/// Where a SentencePiece-style text may be cut into words.
///
/// Merging never crosses the place between two characters that stand side by side in no token. So a cut before `▁` is
/// exact unless the character before it is one that some token has in front of a `▁`; those are kept here. Without cuts
/// a whole document is one word, which no cache can help.
#[derive(Default)]
pub struct Joins {
    before_space: AHashSet<char>,
}

impl Joins {
    pub fn note(&mut self, piece: &str) {
        let mut last = None;
        for c in piece.chars() {
            if c == '\u{2581}' {
                if let Some(l) = last {
                    self.before_space.insert(l);
                }
            }
            last = Some(c);
        }
    }

    /// The next block of a long text: up to a space where a word may begin.
    fn block<'t>(&self, text: &'t str) -> (&'t str, &'t str) {
        block_at(text, |i| {
            let before = text[..i].chars().next_back();
            text[i..].starts_with(' ') && before.is_some_and(|c| c != ' ' && !self.before_space.contains(&c))
        })
    }

    fn words(&self, text: &str, each: &mut dyn FnMut(&str) -> Res<()>) -> Res<()> {
        let mut from = 0;
        let mut last = None;
        for (i, c) in text.char_indices() {
            if c == '\u{2581}' && last.is_some_and(|l| !self.before_space.contains(&l)) {
                each(&text[from..i])?;
                from = i;
            }
            last = Some(c);
        }
        if from < text.len() {
            each(&text[from..])?;
        }
        Ok(())
    }
}
