//! Names of metrics: those of a node, those of docs/metrics.md, and those that the dashboard queries.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::exposition::{Numbers, read};
use crate::https;

fn repository(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The metrics of a node that has everything that is counted.
fn all() -> Numbers {
    read(&https::setup("").start())
}

/// Labels that Prometheus adds.
const PROMETHEUS_LABELS: [&str; 2] = ["job", "instance"];

/// The words between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The rows of tables below a heading, by cell.
fn rows(document: &str, heading: &str) -> Vec<Vec<String>> {
    let (_, section) = document.split_once(heading).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    section.lines().filter(|line| line.starts_with("| `")).map(cells).collect()
}

#[test]
fn the_document_lists_exactly_the_metrics_of_a_node() {
    let (numbers, document) = (all(), repository("docs/metrics.md"));
    let exported = numbers.names();
    let rows = rows(&document, "\n## Names\n");
    let is_name = |row: &Vec<String>| row.len() == 3;
    let mut documented = BTreeMap::new();
    for row in rows.iter().filter(|row| is_name(row)) {
        let before = documented.insert(quoted(&row[0])[0], quoted(&row[1]).into_iter().collect::<BTreeSet<_>>());
        assert!(before.is_none() && !row[2].is_empty(), "{row:?}");
    }
    let exported_labels: BTreeMap<&str, BTreeSet<&str>> =
        exported.iter().map(|(name, labels)| (*name, labels.keys().copied().collect())).collect();
    assert_eq!(documented, exported_labels);
    // Every value of a label is in the second table, except names of exports and versions.
    for (label, values) in exported.values().flatten().filter(|(label, _)| !["export", "version"].contains(*label)) {
        let of_label = |row: &&Vec<String>| !is_name(row) && quoted(&row[0])[0] == *label;
        let listed: Vec<&str> = rows.iter().filter(of_label).flat_map(|row| quoted(&row[1])).collect();
        let missing: Vec<_> = values.iter().filter(|value| !listed.contains(value)).collect();
        assert!(missing == [&"2xx", &"3xx", &"4xx"] || missing.is_empty(), "{label}: {missing:?}");
    }
}

#[test]
fn names_keep_to_the_conventions() {
    let numbers = all();
    let mut families = BTreeSet::new();
    for (name, labels) in numbers.names() {
        let family = name.strip_suffix("_total").unwrap_or(name);
        let (help, kind) = numbers.families.get(family).unwrap_or_else(|| panic!("{name} is not described"));
        assert!(help.ends_with('.') && help.len() > 10, "{name}: {help}");
        assert_eq!(kind, if name.ends_with("_total") { "counter" } else { "gauge" }, "{name}");
        assert!(name.starts_with("longhaul_") || name.starts_with("process_"), "{name}");
        // Few series, whatever the clients: never an address, a user or a path.
        let many: usize = labels.values().map(BTreeSet::len).product();
        assert!(many <= 30 && labels.values().flatten().all(|value| !value.contains(['/', '@', ':'])), "{name}");
        families.insert(family);
    }
    assert_eq!(families, numbers.families.keys().map(String::as_str).collect(), "described, and exported");
}

/// A piece of a query.
#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Text(String),
    Sign(char),
}

/// The pieces of PromQL, as far as the dashboard and the document use it.
fn tokens(query: &str) -> Vec<Token> {
    let (mut tokens, mut rest) = (Vec::new(), query);
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || "_$.".contains(c);
        let length = match first {
            '"' => {
                let end = rest[1..].find('"').unwrap_or_else(|| panic!("{query}"));
                tokens.push(Token::Text(rest[1..=end].into()));
                end + 2
            }
            '#' => rest.find('\n').unwrap_or(rest.len()),
            c if is_word(c) => {
                let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                tokens.push(Token::Word(rest[..end].into()));
                end
            }
            c if c.is_whitespace() => 1,
            c if "(){}[],=~<>+-*/!".contains(c) => {
                tokens.push(Token::Sign(c));
                1
            }
            c => panic!("{c:?} in {query}"),
        };
        rest = &rest[length..];
    }
    tokens
}

/// Functions and words of PromQL that are used.
const WORDS: [&str; 9] = ["sum", "min", "max", "count", "rate", "increase", "time", "by", "label_values"];

/// Checks a query against the metrics of a node: names, labels, values, brackets. Returns the number of metrics in it.
fn check(query: &str, exported: &BTreeMap<&str, BTreeMap<&str, BTreeSet<&str>>>) -> usize {
    let tokens = tokens(query);
    let (mut open, mut of, mut metrics) = (Vec::new(), None, Vec::new());
    for (at, token) in tokens.iter().enumerate() {
        let next = tokens.get(at + 1);
        match token {
            Token::Sign(c @ ('(' | '{' | '[')) => open.push(*c),
            Token::Sign(c @ (')' | '}' | ']')) => {
                let matches = matches!((open.pop(), c), (Some('('), ')') | (Some('{'), '}') | (Some('['), ']'));
                assert!(matches, "brackets in {query}");
            }
            Token::Sign(_) | Token::Text(_) => {}
            // A label and its value.
            Token::Word(label) if open.last() == Some(&'{') => {
                let labels = of.and_then(|of: &str| exported.get(of)).unwrap_or_else(|| panic!("of what? {query}"));
                if PROMETHEUS_LABELS.contains(&label.as_str()) {
                    continue;
                }
                let known = labels.get(label.as_str()).unwrap_or_else(|| panic!("{label} of {of:?} in {query}"));
                if let (Some(Token::Sign('=')), Some(Token::Text(value))) = (next, tokens.get(at + 2)) {
                    assert!(known.contains(value.as_str()), "{label}={value} in {query}");
                }
            }
            // A span of time.
            Token::Word(span) if open.last() == Some(&'[') => {
                let is_span = span == "$__rate_interval" || span.ends_with(['m', 'h', 'd']);
                assert!(is_span, "{span} in {query}");
            }
            Token::Word(word) if word.starts_with("longhaul_") || word.starts_with("process_") => {
                of = Some(word.as_str());
                metrics.push(word.as_str());
                assert!(exported.contains_key(word.as_str()), "no node exports {word}: {query}");
            }
            Token::Word(word) if WORDS.contains(&word.as_str()) => {}
            Token::Word(number) if number.parse::<f64>().is_ok() => {}
            // What is left are labels after `by`, or in a query for a label's values.
            Token::Word(label) => {
                let known =
                    exported.iter().any(|(name, labels)| query.contains(name) && labels.contains_key(label.as_str()));
                assert!(known || PROMETHEUS_LABELS.contains(&label.as_str()), "{label} in {query}");
            }
        }
    }
    assert!(open.is_empty(), "brackets in {query}");
    metrics.len()
}

fn queries<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value.as_str() {
                    Some(text) if key == "expr" || key == "definition" => found.push(text),
                    _ => queries(value, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| queries(value, found)),
        _ => {}
    }
}

#[test]
fn the_dashboard_queries_existing_metrics_and_shows_all() {
    let numbers = all();
    let exported = numbers.names();
    let dashboard: Value = serde_json::from_str(&repository("packaging/grafana-dashboard.json")).unwrap();
    let mut found = Vec::new();
    queries(&dashboard, &mut found);
    assert!(found.len() > 25, "{found:?}");
    for query in &found {
        assert!(check(query, &exported) > 0, "{query} asks for no metric of a node");
    }
    // Everything that is exported is shown somewhere.
    let shown = |name: &&&str| found.iter().any(|query| query.contains(**name));
    assert_eq!(exported.keys().filter(|name| !shown(name)).collect::<Vec<_>>(), Vec::<&&str>::new());
    // A data source is chosen, not built in, and panels have places and numbers of their own.
    assert!(!dashboard.to_string().contains("\"uid\":\"P"));
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{panel}");
    }
}

#[test]
fn queries_of_the_document_use_existing_metrics() {
    let (numbers, document) = (all(), repository("docs/metrics.md"));
    let (_, rest) = document.split_once("```promql\n").unwrap();
    let queries: Vec<&str> = rest.split("```").next().unwrap().lines().collect();
    assert!(queries.len() > 3);
    queries.iter().for_each(|query| assert!(check(query, &numbers.names()) > 0, "{query}"));
}

#[test]
#[should_panic(expected = "no node exports longhaul_moved_byte_total")]
fn a_query_of_an_unknown_metric_fails_the_check() {
    let exported = BTreeMap::new();
    check("sum(rate(longhaul_moved_byte_total[5m]))", &exported);
}
