//! Numbers in schemas: what a double cannot hold is moved to the safe side.

use serde_json::{json, Map, Number, Value};

/// The largest double below 10^18; patterns for longer numbers are not made.
const MOST: f64 = 999_999_999_999_999_872.0;

/// Whether a number survives as a double.
pub fn exact(n: &Number) -> bool {
    match (n.as_i64(), n.as_u64()) {
        (Some(i), _) => i.unsigned_abs() <= 1 << 53,
        (None, Some(_)) => false,
        _ => true,
    }
}

/// The double next to n on the allowed side.
fn inward(n: &Number, lower: bool) -> Option<f64> {
    let f = n.as_f64()?;
    let whole = match (n.as_i64(), n.as_u64()) {
        (Some(i), _) => i as i128,
        (None, Some(u)) => u as i128,
        _ => return Some(f),
    };
    Some(match (lower, f as i128) {
        (true, got) if got < whole => f.next_up(),
        (false, got) if got > whole => f.next_down(),
        _ => f,
    })
}

/// A bound in the words of draft 2020-12: nothing to say, or a reason against it, or None for what is no number.
pub fn bound<'k>(
    k: &'k str,
    v: &Value,
    map: &Map<String, Value>,
) -> Result<Option<(&'k str, Value)>, Option<&'static str>> {
    // Draft 4: a flag beside the bound.
    if let Value::Bool(_) = v {
        return if k.starts_with("exclusive") { Ok(None) } else { Err(None) };
    }
    let Value::Number(n) = v else { return Err(None) };
    let lower = k.to_lowercase().ends_with("minimum");
    let f = inward(n, lower).ok_or(None)?;
    if (lower && f > MOST) || (!lower && f < -MOST) {
        return Err(Some("numbers beyond 18 digits cannot be enforced"));
    }
    let f = f.clamp(-MOST, MOST);
    let flag = match k {
        "minimum" => map.get("exclusiveMinimum"),
        "maximum" => map.get("exclusiveMaximum"),
        _ => None,
    };
    let k = match (k, flag.and_then(Value::as_bool)) {
        ("minimum", Some(true)) => "exclusiveMinimum",
        ("maximum", Some(true)) => "exclusiveMaximum",
        _ => k,
    };
    Ok(Some((k, if n.as_f64() == Some(f) { v.clone() } else { json!(f) })))
}

/// A step: like `bound`. `seen` holds those of the whole schema, because parts may have to be combined.
pub fn multiple(v: &Value, seen: &mut Vec<f64>) -> Result<(), Option<&'static str>> {
    let f = v.as_f64().filter(|f| *f > 0.0 && f.is_finite()).ok_or(None)?;
    if !seen.contains(&f) {
        seen.push(f);
    }
    let most = if seen.len() > 1 { 65_535.0 } else { 1_000_000.0 };
    let mut all = 1u64;
    let digits = seen.iter().map(|f| decimals(*f)).max().unwrap_or(0);
    for f in seen.iter() {
        let scaled = (f * 10f64.powi(digits)).round();
        if digits > 6 || scaled > most {
            return Err(Some("a step with this many digits cannot be enforced"));
        }
        all = all / gcd(all, scaled as u64) * scaled as u64;
        if all as f64 > most {
            return Err(Some("these steps together have too many digits to be enforced"));
        }
    }
    Ok(())
}

/// Digits behind the point of the shortest text of f.
fn decimals(f: f64) -> i32 {
    let text = format!("{f}");
    text.split_once('.').map_or(0, |(_, d)| d.len() as i32)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        gcd(b, a % b)
    }
}
