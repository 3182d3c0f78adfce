//! `strftime_now` for templates: the time and its zone are the caller's, so that a rendering can be repeated.

/// Seconds since 1970, and how many the caller's clock is ahead of UTC.
#[derive(Clone, Copy)]
pub struct Now {
    pub unix: i64,
    pub ahead: i32,
}

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

struct Date {
    year: i64,
    month: i64,
    day: i64,
    weekday: i64,
    yearday: i64,
    second: i64,
}

/// Howard Hinnant's `civil_from_days`.
fn date(unix: i64) -> Date {
    let days = unix.div_euclid(86400);
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = doy - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + i64::from(month <= 2);
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334][(month - 1) as usize];
    let yearday = before + day + i64::from(leap && month > 2);
    Date { year, month, day, weekday: (days + 4).rem_euclid(7), yearday, second: unix.rem_euclid(86400) }
}

pub fn format(now: Now, fmt: &str) -> String {
    let d = date(now.unix.saturating_add(now.ahead.into()));
    let (h, m, s) = (d.second / 3600, d.second / 60 % 60, d.second % 60);
    let h12 = if h % 12 == 0 { 12 } else { h % 12 };
    let (day, month) = (DAYS[d.weekday as usize], MONTHS[(d.month - 1) as usize]);
    let mut out = String::new();
    let mut chars = fmt.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut code = chars.next();
        let plain = code == Some('-');
        if plain {
            code = chars.next();
        }
        let two = |n: i64| if plain { n.to_string() } else { format!("{n:02}") };
        match code {
            Some('Y') => out.push_str(&d.year.to_string()),
            Some('y') => out.push_str(&two(d.year.rem_euclid(100))),
            Some('m') => out.push_str(&two(d.month)),
            Some('d') => out.push_str(&two(d.day)),
            Some('e') => out.push_str(&format!("{:2}", d.day)),
            Some('H') => out.push_str(&two(h)),
            Some('I') => out.push_str(&two(h12)),
            Some('M') => out.push_str(&two(m)),
            Some('S') => out.push_str(&two(s)),
            Some('f') => out.push_str("000000"),
            Some('p') => out.push_str(if h < 12 { "AM" } else { "PM" }),
            Some('j') => out.push_str(&if plain { d.yearday.to_string() } else { format!("{:03}", d.yearday) }),
            Some('A') => out.push_str(day),
            Some('a') => out.push_str(&day[..3]),
            Some('B') => out.push_str(month),
            Some('b' | 'h') => out.push_str(&month[..3]),
            Some('w') => out.push_str(&d.weekday.to_string()),
            Some('u') => out.push_str(&(if d.weekday == 0 { 7 } else { d.weekday }).to_string()),
            Some('F') => out.push_str(&format!("{}-{:02}-{:02}", d.year, d.month, d.day)),
            Some('T') => out.push_str(&format!("{h:02}:{m:02}:{s:02}")),
            Some('R') => out.push_str(&format!("{h:02}:{m:02}")),
            Some('D' | 'x') => out.push_str(&format!("{:02}/{:02}/{:02}", d.month, d.day, d.year.rem_euclid(100))),
            Some('X') => out.push_str(&format!("{h:02}:{m:02}:{s:02}")),
            Some('c') => {
                out.push_str(&format!("{} {} {:2} {h:02}:{m:02}:{s:02} {}", &day[..3], &month[..3], d.day, d.year))
            }
            Some('s') => out.push_str(&now.unix.to_string()),
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            // `datetime.now()` knows no zone, so these are empty in Python, too.
            Some('z' | 'Z') => {}
            Some('%') => out.push('%'),
            Some(c) => {
                out.push('%');
                out.push(c);
            }
            None => out.push('%'),
        }
    }
    out
}
