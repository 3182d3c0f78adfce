//! GBNF, llama.cpp's notation, as Lark.
//!
//! llguidance splits a text into terminals before it parses, and a terminal takes the longest match. So as much as can be
//! one regular expression becomes one terminal: every rule that does not lead back to itself, and within the others every
//! run of such items. A rule that calls itself only at its end (`ws ::= ([ \t] ws)?`) is a repetition and becomes one.

use crate::border::{fail, Res, FFWD_ARGUMENT, FFWD_TOO_LONG};
use crate::lark::literal;
use ahash::{AHashMap, AHashSet};
use std::fmt::Write;

/// Repetitions are counted up to this.
const COUNT: u32 = 100_000;
const DEPTH: usize = 200;

#[derive(Clone)]
enum Item {
    Text(String),
    /// A regular expression for one character.
    Class(String),
    Rule(usize),
    Group(Alternatives),
    /// An item so many times; None: without end.
    Repeat(Box<Item>, u32, Option<u32>),
}

type Alternatives = Vec<Vec<Item>>;

struct Rule {
    name: String,
    body: Option<Alternatives>,
    /// Where it was first seen.
    at: usize,
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    rules: Vec<Rule>,
    names: AHashMap<String, usize>,
    depth: usize,
}

pub fn to_lark(text: &str) -> Res<String> {
    let mut p = Parser { text, at: 0, rules: Vec::new(), names: AHashMap::new(), depth: 0 };
    p.all()?;
    let Some(&root) = p.names.get("root") else {
        return fail(FFWD_ARGUMENT, "the grammar has no rule named root");
    };
    if let Some(rule) = p.rules.iter().find(|r| r.body.is_none()) {
        return p.wrong(rule.at, &format!("there is no rule named {}", rule.name));
    }
    let mut bodies: Vec<Alternatives> = p.rules.iter_mut().map(|r| r.body.take().unwrap_or_default()).collect();
    for (i, body) in bodies.iter_mut().enumerate() {
        if let Some(new) = tail_loop(i, body) {
            *body = new;
        }
    }
    // What leads back to itself is no regular expression, nor is what leads to such a rule.
    let reached: Vec<AHashSet<usize>> = (0..bodies.len()).map(|i| reached(i, &bodies)).collect();
    let loops = |i: usize| reached[i].contains(&i);
    let recursive: Vec<bool> = (0..bodies.len()).map(|i| loops(i) || reached[i].iter().any(|&j| loops(j))).collect();
    Writer { bodies: &bodies, recursive: &recursive, runs: 0, out: String::new(), pending: String::new() }.all(root)
}

impl<'t> Parser<'t> {
    fn wrong<T>(&self, at: usize, what: &str) -> Res<T> {
        let before = &self.text[..at.min(self.text.len())];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        fail(FFWD_ARGUMENT, format!("line {line}, column {column}: {what}"))
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn eat(&mut self, what: &str) -> bool {
        let found = self.text[self.at..].starts_with(what);
        if found {
            self.at += what.len();
        }
        found
    }

    /// White space and comments; a line's end only where the rule goes on behind it.
    fn space(&mut self, lines: bool) {
        while let Some(c) = self.peek() {
            match c {
                '#' => {
                    while self.peek().is_some_and(|c| c != '\n' && c != '\r') {
                        self.next();
                    }
                }
                ' ' | '\t' => {
                    self.next();
                }
                '\n' | '\r' if lines => {
                    self.next();
                }
                _ => return,
            }
        }
    }

    fn name(&mut self) -> Res<usize> {
        let from = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
            self.next();
        }
        if self.at == from {
            return self.wrong(from, "expected a rule's name");
        }
        let name = self.text[from..self.at].to_string();
        if let Some(&i) = self.names.get(&name) {
            return Ok(i);
        }
        self.names.insert(name.clone(), self.rules.len());
        self.rules.push(Rule { name, body: None, at: from });
        Ok(self.rules.len() - 1)
    }

    fn all(&mut self) -> Res<()> {
        self.space(true);
        while self.peek().is_some() {
            let at = self.at;
            let i = self.name()?;
            self.space(false);
            if !self.eat("::=") {
                return self.wrong(self.at, "expected ::=");
            }
            self.space(true);
            let body = self.alternatives(false)?;
            if self.rules[i].body.is_some() {
                return self.wrong(at, &format!("a second rule named {}", self.rules[i].name));
            }
            self.rules[i].body = Some(body);
            self.space(false);
            if self.peek().is_some_and(|c| c != '\n' && c != '\r') {
                return self.wrong(self.at, "expected the end of the line");
            }
            self.space(true);
        }
        Ok(())
    }

    fn alternatives(&mut self, nested: bool) -> Res<Alternatives> {
        self.depth += 1;
        if self.depth > DEPTH {
            return fail(FFWD_TOO_LONG, format!("groups are nested deeper than {DEPTH}"));
        }
        let mut out = vec![self.sequence(nested)?];
        while self.eat("|") {
            self.space(true);
            out.push(self.sequence(nested)?);
        }
        self.depth -= 1;
        Ok(out)
    }

    fn sequence(&mut self, nested: bool) -> Res<Vec<Item>> {
        let mut out: Vec<Item> = Vec::new();
        loop {
            let at = self.at;
            let Some(c) = self.peek() else { return Ok(out) };
            let item = match c {
                '"' => self.string()?,
                '[' => self.class()?,
                '.' => {
                    self.next();
                    Item::Class("(?s:.)".to_string())
                }
                '(' => {
                    self.next();
                    self.space(true);
                    let inner = self.alternatives(true)?;
                    if !self.eat(")") {
                        return self.wrong(self.at, "expected )");
                    }
                    Item::Group(inner)
                }
                '*' | '+' | '?' | '{' => {
                    let Some(last) = out.pop() else { return self.wrong(at, "nothing stands before the repetition") };
                    self.repetition(last)?
                }
                c if c.is_ascii_alphanumeric() => Item::Rule(self.name()?),
                '\n' | '\r' if self.goes_on() => {
                    self.space(true);
                    continue;
                }
                '|' | ')' | '\n' | '\r' => return Ok(out),
                _ => return self.wrong(at, &format!("{c:?} means nothing here")),
            };
            out.push(item);
            self.space(nested);
        }
    }

    /// Behind the line's end stands an alternative: the rule is not over.
    fn goes_on(&mut self) -> bool {
        let at = self.at;
        self.space(true);
        let found = self.peek() == Some('|');
        self.at = at;
        found
    }

    fn repetition(&mut self, item: Item) -> Res<Item> {
        let at = self.at;
        let (least, most) = match self.next() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            _ => self.counts()?,
        };
        if most.is_some_and(|m| m < least) || least > COUNT || most.is_some_and(|m| m > COUNT) {
            return self.wrong(at, &format!("repetitions are counted from 0 to {COUNT}, the smaller number first"));
        }
        if most == Some(0) {
            return Ok(Item::Text(String::new()));
        }
        Ok(Item::Repeat(Box::new(item), least, most))
    }

    /// `m}`, `m,}`, `,n}` or `m,n}`.
    fn counts(&mut self) -> Res<(u32, Option<u32>)> {
        self.space(true);
        let least = self.number();
        self.space(true);
        let most = if self.eat(",") {
            self.space(true);
            let most = self.number();
            self.space(true);
            if least.is_none() && most.is_none() {
                return self.wrong(self.at, "expected a number");
            }
            most
        } else if least.is_some() {
            least
        } else {
            return self.wrong(self.at, "expected a number");
        };
        if !self.eat("}") {
            return self.wrong(self.at, "expected }");
        }
        Ok((least.unwrap_or(0), most))
    }

    fn number(&mut self) -> Option<u32> {
        let from = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.next();
        }
        (self.at > from).then(|| self.text[from..self.at].parse().unwrap_or(u32::MAX))
    }

    /// One character of a text or a class, escapes resolved.
    fn char(&mut self, what: &str) -> Res<char> {
        let at = self.at;
        let Some(c) = self.next() else { return self.wrong(at, &format!("the {what} does not end")) };
        if c == '\n' || c == '\r' {
            return self.wrong(at, &format!("the {what} does not end"));
        }
        if c != '\\' {
            return Ok(c);
        }
        let digits = match self.next() {
            Some('n') => return Ok('\n'),
            Some('r') => return Ok('\r'),
            Some('t') => return Ok('\t'),
            Some(c @ ('\\' | '"' | '[' | ']' | '-' | '^')) => return Ok(c),
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            _ => return self.wrong(at, "an escape is one of \\n \\r \\t \\\\ \\\" \\[ \\] \\xHH \\uHHHH \\UHHHHHHHH"),
        };
        let hex = self.text.get(self.at..self.at + digits).and_then(|h| u32::from_str_radix(h, 16).ok());
        self.at += digits.min(self.text.len() - self.at);
        match hex.and_then(char::from_u32) {
            Some(c) => Ok(c),
            None => self.wrong(at, &format!("expected {digits} hexadecimal digits of a character")),
        }
    }

    fn string(&mut self) -> Res<Item> {
        self.next();
        let mut out = String::new();
        while self.peek() != Some('"') {
            out.push(self.char("text")?);
        }
        self.next();
        Ok(Item::Text(out))
    }

    fn class(&mut self) -> Res<Item> {
        let at = self.at;
        self.next();
        let mut out = String::from("[");
        if self.eat("^") {
            out.push('^');
        }
        let mut any = false;
        while self.peek() != Some(']') {
            let first = self.char("class")?;
            let mut last = first;
            // A minus before the end is itself.
            if self.peek() == Some('-') && !self.text[self.at + 1..].starts_with(']') {
                self.next();
                last = self.char("class")?;
            }
            if last < first {
                return self.wrong(at, "a range of characters begins behind its end");
            }
            let _ = write!(out, "\\x{{{:x}}}-\\x{{{:x}}}", first as u32, last as u32);
            any = true;
        }
        self.next();
        out.push(']');
        match (any, out.starts_with("[^")) {
            (true, _) => Ok(Item::Class(out)),
            (false, true) => Ok(Item::Class("(?s:.)".to_string())),
            (false, false) => self.wrong(at, "a class without characters matches nothing"),
        }
    }
}

/// `r ::= a r | b` as `a* b`, where r occurs nowhere else.
fn tail_loop(rule: usize, body: &Alternatives) -> Option<Alternatives> {
    let mut flat: Alternatives = Vec::new();
    for alternative in body {
        match alternative.as_slice() {
            [Item::Group(inner)] => flat.extend(inner.iter().cloned()),
            [Item::Repeat(item, 0, Some(1))] => {
                match item.as_ref() {
                    Item::Group(inner) => flat.extend(inner.iter().cloned()),
                    other => flat.push(vec![other.clone()]),
                }
                flat.push(Vec::new());
            }
            _ => flat.push(alternative.clone()),
        }
    }
    let (mut steps, mut ends): (Alternatives, Alternatives) = (Vec::new(), Vec::new());
    for mut alternative in flat {
        let tail = matches!(alternative.last(), Some(Item::Rule(r)) if *r == rule);
        if tail {
            alternative.pop();
        }
        if alternative.iter().any(|i| calls(i, rule)) || (tail && alternative.is_empty()) {
            return None;
        }
        if tail { &mut steps } else { &mut ends }.push(alternative);
    }
    if steps.is_empty() || ends.is_empty() {
        return None;
    }
    Some(vec![vec![Item::Repeat(Box::new(Item::Group(steps)), 0, None), Item::Group(ends)]])
}

fn calls(item: &Item, rule: usize) -> bool {
    match item {
        Item::Rule(r) => *r == rule,
        Item::Group(a) => a.iter().flatten().any(|i| calls(i, rule)),
        Item::Repeat(i, ..) => calls(i, rule),
        _ => false,
    }
}

fn each_rule(item: &Item, found: &mut Vec<usize>) {
    match item {
        Item::Rule(r) => found.push(*r),
        Item::Group(a) => a.iter().flatten().for_each(|i| each_rule(i, found)),
        Item::Repeat(i, ..) => each_rule(i, found),
        _ => {}
    }
}

/// The rules that a rule leads to.
fn reached(rule: usize, bodies: &[Alternatives]) -> AHashSet<usize> {
    let mut seen: AHashSet<usize> = AHashSet::new();
    let mut open = vec![rule];
    while let Some(r) = open.pop() {
        let mut found = Vec::new();
        bodies[r].iter().flatten().for_each(|i| each_rule(i, &mut found));
        open.extend(found.into_iter().filter(|f| seen.insert(*f)));
    }
    seen
}

struct Writer<'b> {
    bodies: &'b [Alternatives],
    recursive: &'b [bool],
    runs: usize,
    out: String,
    /// Terminals of runs, which stand behind the rule that they were found in.
    pending: String,
}

impl Writer<'_> {
    fn all(mut self, root: usize) -> Res<String> {
        let bodies = self.bodies;
        let start = if self.recursive[root] { format!("r{root}") } else { format!("T{root}") };
        let _ = writeln!(self.out, "start: {start}");
        for (i, body) in bodies.iter().enumerate() {
            if self.recursive[i] {
                let text = self.rule(body);
                let _ = writeln!(self.out, "r{i}: {text}");
            } else {
                let text = self.terminal(body);
                let _ = writeln!(self.out, "T{i}: {text}");
            }
            let runs = std::mem::take(&mut self.pending);
            self.out.push_str(&runs);
        }
        Ok(self.out)
    }

    fn flat(&self, item: &Item) -> bool {
        match item {
            Item::Rule(r) => !self.recursive[*r],
            Item::Group(a) => a.iter().flatten().all(|i| self.flat(i)),
            Item::Repeat(i, ..) => self.flat(i),
            _ => true,
        }
    }

    fn terminal(&self, alternatives: &Alternatives) -> String {
        let each: Vec<String> = alternatives.iter().map(|s| self.terminal_run(s)).collect();
        each.join(" | ")
    }

    fn terminal_run(&self, items: &[Item]) -> String {
        if items.is_empty() {
            return "\"\"".to_string();
        }
        let each: Vec<String> = items.iter().map(|i| self.terminal_item(i)).collect();
        each.join(" ")
    }

    fn terminal_item(&self, item: &Item) -> String {
        match item {
            Item::Text(t) => literal(t),
            Item::Class(c) => format!("/{c}/"),
            Item::Rule(r) => format!("T{r}"),
            Item::Group(a) => format!("({})", self.terminal(a)),
            Item::Repeat(i, m, n) => format!("({}){}", self.terminal_item(i), times(*m, *n)),
        }
    }

    fn rule(&mut self, alternatives: &Alternatives) -> String {
        let each: Vec<String> = alternatives.iter().map(|s| self.rule_run(s)).collect();
        each.join(" | ")
    }

    fn rule_run(&mut self, items: &[Item]) -> String {
        let mut out: Vec<String> = Vec::new();
        let mut i = 0;
        while i < items.len() {
            let n = items[i..].iter().take_while(|x| self.flat(x)).count();
            if n > 0 {
                let text = self.terminal_run(&items[i..i + n]);
                let name = format!("RUN{}", self.runs);
                self.runs += 1;
                let _ = writeln!(self.pending, "{name}: {text}");
                out.push(name);
                i += n;
            } else {
                let text = self.rule_item(&items[i]);
                out.push(text);
                i += 1;
            }
        }
        if out.is_empty() {
            return "\"\"".to_string();
        }
        out.join(" ")
    }

    fn rule_item(&mut self, item: &Item) -> String {
        match item {
            Item::Rule(r) => format!("r{r}"),
            Item::Group(a) => format!("({})", self.rule(a)),
            Item::Repeat(i, m, n) => {
                let inner = self.rule_run(std::slice::from_ref(i));
                format!("({inner}){}", times(*m, *n))
            }
            _ => self.rule_run(std::slice::from_ref(item)),
        }
    }
}

fn times(least: u32, most: Option<u32>) -> String {
    match (least, most) {
        (0, None) => "*".to_string(),
        (1, None) => "+".to_string(),
        (0, Some(1)) => "?".to_string(),
        (m, None) => format!("{{{m},}}"),
        (m, Some(n)) => format!("{{{m},{n}}}"),
    }
}
