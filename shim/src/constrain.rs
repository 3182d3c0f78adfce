//! The door to constrained decoding: llguidance over our vocabulary.
//!
//! For now only a check that the library is linked and works; masks and matchers come with the issue that needs them.

use crate::border::{fail, ffwd_error, guard, FFWD_BUG};
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, TokRxInfo, TokTrie};
use llguidance::ParserFactory;
use std::sync::Arc;

/// Compiles a one-rule grammar over a vocabulary of the 256 bytes.
///
/// # Safety
/// `err` is NULL or writable.
#[no_mangle]
pub unsafe extern "C" fn ffwd_grammar_selftest(err: *mut ffwd_error) -> i32 {
    guard(err, || {
        let mut words: Vec<Vec<u8>> = (0..=255u8).map(|b| vec![b]).collect();
        words.push(b"\xff<eos>".to_vec());
        let trie = TokTrie::from(&TokRxInfo::new(words.len() as u32, 256), &words);
        let env = Arc::new(ApproximateTokEnv::new(trie));
        let bug = |e: String| crate::border::Fail { code: FFWD_BUG, text: format!("llguidance: {e}") };
        let mut factory = ParserFactory::new_simple(&(env as _)).map_err(|e| bug(e.to_string()))?;
        factory.quiet();
        let grammar = TopLevelGrammar::from_lark("start: \"yes\"".to_string());
        match factory.create_parser(grammar) {
            Ok(_) => Ok(()),
            Err(e) => fail(FFWD_BUG, format!("llguidance: {e}")),
        }
    })
}
