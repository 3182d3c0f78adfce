//! Formats of strings that are enforced.
//!
//! Dates are our own, because llguidance's know no leap years and let a minute have 61 seconds; the rest is its own.

use serde_json::{json, Value};

const YEAR: &str = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])";
const LEAP: &str = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)";
const TIME: &str = concat!(
    r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?",
    "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
);

fn date() -> String {
    format!(
        "(?:{YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)\
         |02-(?:0[1-9]|1[0-9]|2[0-8]))|{LEAP}-02-29)"
    )
}

/// What a format asks of a string, as parts of a schema; None if it is not known.
pub fn rule(name: &str) -> Option<Vec<Value>> {
    let own = |body: String| Some(vec![json!({"pattern": format!("^{body}$")})]);
    match name {
        "date" => own(date()),
        "time" => own(TIME.to_string()),
        "date-time" => own(format!("{}T{TIME}", date())),
        "hostname" => Some(vec![json!({"format": name}), json!({"maxLength": 253})]),
        "email" | "ipv4" | "ipv6" | "uuid" | "uri" | "duration" => Some(vec![json!({"format": name})]),
        _ => None,
    }
}
