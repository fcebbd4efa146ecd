//! Links between documents: each leads to an existing file, and to a heading of it.
//!
//! Does not know: the web. Links with a scheme are not checked.

use std::collections::HashMap;

use anyhow::Result;

use super::markdown::{Document, documents};
use super::{Breach, Tree};

/// Every link without a scheme leads somewhere.
pub fn lead_somewhere(tree: &Tree) -> Result<Vec<Breach>> {
    let all: Vec<Document> = documents(tree).collect();
    let anchors: HashMap<&str, Vec<String>> = all.iter().map(|one| (one.path.as_str(), one.anchors())).collect();
    let mut breaches = Vec::new();
    for document in &all {
        for (n, line) in document.prose.iter().enumerate() {
            for target in targets(line).filter(|target| !has_scheme(target)) {
                if let Some(what) = link_fault(tree, &anchors, &document.path, target) {
                    breaches.push(Breach::new(&document.path, n + 1, what));
                }
            }
        }
    }
    Ok(breaches)
}

/// The targets of the links of a line.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("](").filter_map(|(at, mark)| line[at + mark.len()..].split_once(')')).map(|(target, _)| target)
}

fn has_scheme(target: &str) -> bool {
    target.split(['/', '#']).next().is_some_and(|first| first.contains(':'))
}

/// What is wrong with a link; none if it is right.
fn link_fault(tree: &Tree, anchors: &HashMap<&str, Vec<String>>, from: &str, target: &str) -> Option<String> {
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let path = if path.is_empty() { Some(from.to_owned()) } else { resolve(from, path) };
    let Some(path) = path else { return Some(format!("the link to {target} leads out of the repository")) };
    let directory = format!("{path}/");
    if !tree.files.iter().any(|file| file.path == path || file.path.starts_with(&directory)) {
        return Some(format!("the link to {target} leads nowhere: there is no {path}"));
    }
    let anchor = anchor?;
    let exists = anchors.get(path.as_str()).is_some_and(|anchors| anchors.iter().any(|known| known == anchor));
    (!exists).then(|| format!("{path} has no heading with the anchor #{anchor}"))
}

/// The path from the root of a relative path in a document; none if it leads out of the repository.
fn resolve(from: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::RepositoryFile;
    use super::*;

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let file = |path: &str, text: &str| RepositoryFile { path: path.into(), bytes: text.into() };
        let text = "[a](b.md) [a](c.md)\n[a](b.md#one) [a](b.md#two)\n[x](#here) ![p](../pic.svg)\n# Here\n[y](#gone)\n\
                    [w](https://host/x) [m](mailto:a@b) `[z](z.md)`\n[up](../../x) [d](sub) [`c` d](sub/e.md)\n";
        let files = vec![
            file("docs/a.md", text),
            file("docs/b.md", "## One\n"),
            file("pic.svg", ""),
            file("docs/sub/e.md", ""),
        ];
        let tree = Tree::of(PathBuf::new(), files);
        let found: Vec<(usize, String)> =
            lead_somewhere(&tree).unwrap().into_iter().map(|breach| (breach.line, breach.what)).collect();
        let lines: Vec<usize> = found.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [1, 2, 5, 7], "{found:?}");
        assert!(found[0].1.contains("docs/c.md") && found[1].1.contains("#two") && found[3].1.contains("out of"));
    }
}
