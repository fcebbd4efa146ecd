//! Modules have no import circles, so that the files of a crate can be read in an order: each after those that it imports from.
//!
//! A module may import from its parent and the parent's parents: such imports are ignored. The others must not form a circle of
//! any size.
//!
//! Does not know: re-exports. A name belongs to the deepest file that its path leads through.

use std::collections::BTreeSet;

use anyhow::Result;

use super::paths::paths;
use super::{Breach, Source, Tree};

/// A file as a module.
#[derive(Debug)]
struct File<'a> {
    source: &'a Source,
    /// Its path in the tree of modules: `["foo", "bar"]` for `src/foo/bar.rs`, empty for the root.
    module: Vec<&'a str>,
}

/// An import: one file uses a name of another.
#[derive(Debug)]
struct Import {
    /// The index of the file that imports.
    from: usize,
    /// The index of the file that it imports from.
    to: usize,
    /// The line, from 1.
    line: usize,
    /// The imported path.
    path: String,
}

/// The files of one crate, and the imports among them, except those from parents.
#[derive(Debug)]
struct Modules<'a> {
    files: Vec<File<'a>>,
    imports: Vec<Import>,
}

/// No crate has a circle of modules.
pub fn check(tree: &Tree) -> Result<Vec<Breach>> {
    Ok(judge(&tree.sources))
}

fn judge(sources: &[Source]) -> Vec<Breach> {
    let crates: BTreeSet<&str> =
        sources.iter().map(Source::crate_name).filter(|crate_name| !crate_name.is_empty()).collect();
    let mut breaches = Vec::new();
    for crate_name in crates {
        let modules = Modules::of(crate_name, sources);
        breaches.extend(modules.circles().iter().map(|circle| modules.breach(circle)));
    }
    breaches
}

impl<'a> Modules<'a> {
    fn of(crate_name: &str, sources: &'a [Source]) -> Modules<'a> {
        let folder = format!("crates/{crate_name}/src/");
        let file = |source: &'a Source| Some(File { source, module: module_of(source.path.strip_prefix(&folder)?)? });
        let mut files: Vec<File<'a>> = sources.iter().filter_map(file).collect();
        // If there are two roots, that of the program is left out: no module of the library can name it.
        if files.iter().any(|file| file.source.path.ends_with("/lib.rs") && file.module.is_empty()) {
            files.retain(|file| !file.source.path.ends_with("/src/main.rs"));
        }
        let tests: Vec<Vec<&str>> = files.iter().flat_map(test_modules).collect();
        files.retain(|file| !tests.iter().any(|test| file.module.starts_with(test)));
        let mut modules = Modules { files, imports: Vec::new() };
        modules.imports = (0..modules.files.len()).flat_map(|from| modules.imports_of(from)).collect();
        modules
    }

    /// The imports of a file, except those from parents: one for each file that it imports from.
    fn imports_of(&self, from: usize) -> Vec<Import> {
        let file = &self.files[from];
        let mut imports: Vec<Import> = Vec::new();
        for (line, path) in paths(file.source) {
            // `pub(in crate::foo)` restricts the visibility, and imports nothing.
            let is_scope = file.source.code[line - 1].contains(&format!("(in {path})"));
            if file.source.test[line - 1] || is_scope {
                continue;
            }
            let Some(to) = self.resolve(&file.module, &path) else { continue };
            let is_parent = file.module.starts_with(&self.files[to].module);
            if !is_parent && !imports.iter().any(|import| import.to == to) {
                imports.push(Import { from, to, line, path });
            }
        }
        imports
    }

    /// The deepest file that a path leads through, seen from a module; none for a path of another crate.
    fn resolve(&self, from: &[&'a str], path: &str) -> Option<usize> {
        let mut parts = path.split("::").peekable();
        let mut module = from.to_vec();
        match *parts.peek()? {
            "crate" => module.clear(),
            "super" | "self" => {}
            child => {
                // Another first name can only be that of a child.
                module.push(child);
                self.at(&module)?;
            }
        }
        parts.next_if(|part| *part != "super");
        while parts.next_if_eq(&"super").is_some() {
            module.pop();
        }
        // A single word is not a path: `pub(super)`, `mod child`, or any name.
        parts.peek()?;
        let mut deepest = self.at(&module);
        for part in parts {
            let mut child = module.clone();
            child.push(part);
            let Some(file) = self.at(&child) else { break };
            deepest = Some(file);
            module.clone_from(&self.files[file].module);
        }
        deepest
    }

    /// The file of a module.
    fn at(&self, module: &[&str]) -> Option<usize> {
        self.files.iter().position(|file| file.module == module)
    }

    /// The circles: the largest sets of files in which each file reaches all others.
    fn circles(&self) -> Vec<Vec<usize>> {
        let reached: Vec<Vec<usize>> = (0..self.files.len()).map(|file| self.reachable_from(file)).collect();
        let mut circles: Vec<Vec<usize>> = Vec::new();
        for (file, reaches) in reached.iter().enumerate().filter(|(file, reaches)| reaches.contains(file)) {
            if !circles.iter().any(|circle| circle.contains(&file)) {
                circles.push(reaches.iter().copied().filter(|other| reached[*other].contains(&file)).collect());
            }
        }
        circles
    }

    /// All files that a file imports from, directly or through others; also the file itself, if it is in a circle.
    fn reachable_from(&self, file: usize) -> Vec<usize> {
        let mut reached = Vec::new();
        let mut next = vec![file];
        while let Some(file) = next.pop() {
            for import in self.imports.iter().filter(|import| import.from == file) {
                if !reached.contains(&import.to) {
                    reached.push(import.to);
                    next.push(import.to);
                }
            }
        }
        reached.sort_unstable();
        reached
    }

    /// Names the files of a circle, and every import in it.
    fn breach(&self, circle: &[usize]) -> Breach {
        let path = |file: usize| self.files[file].source.path.as_str();
        let inside = |import: &&Import| circle.contains(&import.from) && circle.contains(&import.to);
        let arrow = |import: &Import| {
            format!("\n  {}:{} imports `{}` from {}", path(import.from), import.line, import.path, path(import.to))
        };
        let arrows: String = self.imports.iter().filter(inside).map(arrow).collect();
        let remedy = "move what they share into a module of its own, or pass it as an argument";
        let what = format!("{} files import each other in a circle; {remedy}:{arrows}", circle.len());
        Breach::new(path(circle[0]), 0, what)
    }
}

/// The module of a file below `src`; none for a further program, which no other file can import from.
fn module_of(path: &str) -> Option<Vec<&str>> {
    match path.strip_suffix(".rs")? {
        "lib" | "main" => Some(Vec::new()),
        program if program.starts_with("bin/") => None,
        module => Some(module.split('/').collect()),
    }
}

/// The children of a file that are compiled for tests only.
fn test_modules<'a>(file: &File<'a>) -> Vec<Vec<&'a str>> {
    let source: &'a Source = file.source;
    let marked = source.code.windows(2).filter(|pair| pair[0].trim() == "#[cfg(test)]");
    let names = marked.filter_map(|pair| pair[1].trim().strip_suffix(';')?.rsplit_once("mod ").map(|(_, name)| name));
    names.map(|name| file.module.iter().copied().chain([name]).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The breaches of a crate with these files.
    fn faults(files: &[(&str, &str)]) -> Vec<Breach> {
        let source = |(path, text): &(&str, &str)| Source::new(&format!("crates/a/src/{path}"), text);
        judge(&files.iter().map(source).collect::<Vec<_>>())
    }

    fn count(files: &[(&str, &str)]) -> usize {
        faults(files).len()
    }

    #[test]
    fn siblings_that_import_each_other_are_a_circle() {
        let (b, c) = (("b.rs", "use crate::c::C;"), ("c.rs", "fn f() { super::b::g() }"));
        let found = faults(&[("lib.rs", "mod b;\nmod c;"), b, c]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].file.as_str(), found[0].line), ("crates/a/src/b.rs", 0));
        assert!(found[0].what.starts_with("2 files"), "{}", found[0].what);
        assert!(found[0].what.contains("crates/a/src/c.rs:1 imports `super::b::g` from crates/a/src/b.rs"));
        assert_eq!(count(&[b, ("c.rs", "use crate::d;"), ("d.rs", "use crate::{b, e};")]), 1, "through a third");
        assert_eq!(count(&[b, ("c.rs", "use crate::d;"), ("d.rs", "use crate::e;")]), 0);
    }

    #[test]
    fn a_child_may_import_from_its_parents() {
        let (parent, child) = (("b.rs", "mod c;\nuse c::C;"), ("b/c.rs", "use super::B;"));
        assert_eq!(count(&[parent, child]), 0);
        assert_eq!(count(&[parent, child, ("d.rs", "use crate::b::B;")]), 0);
        assert_eq!(count(&[parent, ("b/c.rs", "use crate::d;"), ("d.rs", "use crate::b::B;")]), 1, "through another");
        assert_eq!(count(&[("b.rs", ""), ("b/c.rs", "use super::d;"), ("b/d.rs", "use super::c;")]), 1, "children");
    }

    #[test]
    fn a_name_belongs_to_the_deepest_file_of_its_path() {
        let below = [("b.rs", "mod c;\nuse crate::d;"), ("b/c.rs", "struct C;")];
        assert_eq!(count(&[below[0], below[1], ("d.rs", "use crate::b::c::C;")]), 0);
        assert_eq!(count(&[below[0], below[1], ("d.rs", "use crate::b::{c::C, B};")]), 1);
        assert_eq!(count(&[below[0], below[1], ("d.rs", "use super::b::*;")]), 1);
    }

    #[test]
    fn a_path_that_is_not_an_import_does_not_count() {
        let b = ("b.rs", "use crate::c::C;");
        for text in [
            "// use crate::b;\n",
            "const A: &str = \"crate::b\";",
            "pub(in crate::b) fn f() {}",
            "pub(super) fn b() {}",
            "use other::b::B;",
            "#[cfg(test)]\nmod tests {\n  use crate::b;\n}\n",
        ] {
            assert_eq!(count(&[b, ("c.rs", text)]), 0, "{text}");
        }
        let marked = ("c.rs", "#[cfg(test)]\nmod samples;");
        assert_eq!(count(&[b, marked, ("c/samples.rs", "use crate::b;"), ("c/tests.rs", "use crate::b;")]), 0);
        assert_eq!(count(&[("lib.rs", "mod b;\nuse b::B;"), ("main.rs", "use a::b;"), ("bin/b.rs", "use a::b;")]), 0);
    }
}
