//! Modules have no import circles, so that whoever reads a file can read first what it imports.
//!
//! A child may look up to its parent, or to its parent's parent: such imports are left out. Of those that are left none may
//! lead back. So a circle is a fault however small it is, and all files of a crate can be put in an order.
//!
//! Does not know: re-exports. A name is looked up as a reader would: in the deepest file that its path leads through.

use std::collections::BTreeSet;

use anyhow::Result;

use super::paths::paths;
use super::{Breach, Source, Tree};

/// A file as a module.
#[derive(Debug)]
struct File<'a> {
    source: &'a Source,
    /// Where it is in the tree of modules: `["foo", "bar"]` for `src/foo/bar.rs`, empty for the root.
    module: Vec<&'a str>,
}

/// One file naming something of another.
#[derive(Debug)]
struct Import {
    /// The file that imports, by its place in the list of files.
    from: usize,
    /// The file that is imported from.
    to: usize,
    /// The line, from 1.
    line: usize,
    /// What is named there.
    path: String,
}

/// The files of one crate, and what they import from each other without looking up.
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
    let rooms: BTreeSet<&str> = sources.iter().map(Source::room).filter(|room| !room.is_empty()).collect();
    let mut breaches = Vec::new();
    for room in rooms {
        let modules = Modules::of(room, sources);
        breaches.extend(modules.circles().iter().map(|circle| modules.breach(circle)));
    }
    breaches
}

impl<'a> Modules<'a> {
    fn of(room: &str, sources: &'a [Source]) -> Modules<'a> {
        let folder = format!("crates/{room}/src/");
        let file = |source: &'a Source| Some(File { source, module: module_of(source.path.strip_prefix(&folder)?)? });
        let mut files: Vec<File<'a>> = sources.iter().filter_map(file).collect();
        // Of two roots the program's is left out: nothing below the library's can name it.
        if files.iter().any(|file| file.source.path.ends_with("/lib.rs") && file.module.is_empty()) {
            files.retain(|file| !file.source.path.ends_with("/src/main.rs"));
        }
        let tests: Vec<Vec<&str>> = files.iter().flat_map(test_modules).collect();
        files.retain(|file| !tests.iter().any(|test| file.module.starts_with(test)));
        let mut modules = Modules { files, imports: Vec::new() };
        modules.imports = (0..modules.files.len()).flat_map(|from| modules.imports_of(from)).collect();
        modules
    }

    /// What a file imports without looking up, once for each file that it imports from.
    fn imports_of(&self, from: usize) -> Vec<Import> {
        let file = &self.files[from];
        let mut imports: Vec<Import> = Vec::new();
        for (line, path) in paths(file.source) {
            // `pub(in crate::foo)` says who may look, and takes nothing from there.
            let is_scope = file.source.code[line - 1].contains(&format!("(in {path})"));
            if file.source.test[line - 1] || is_scope {
                continue;
            }
            let Some(to) = self.resolve(&file.module, &path) else { continue };
            let looks_up = file.module.starts_with(&self.files[to].module);
            if !looks_up && !imports.iter().any(|import| import.to == to) {
                imports.push(Import { from, to, line, path });
            }
        }
        imports
    }

    /// The deepest file that a path leads through, seen from a module; none for what is not of this crate.
    fn resolve(&self, from: &[&'a str], path: &str) -> Option<usize> {
        let mut parts = path.split("::").peekable();
        let mut module = from.to_vec();
        match *parts.peek()? {
            "crate" => module.clear(),
            "super" | "self" => {}
            child => {
                // A path that begins with a name of this crate begins with a child's.
                module.push(child);
                self.at(&module)?;
            }
        }
        parts.next_if(|part| *part != "super");
        while parts.next_if_eq(&"super").is_some() {
            module.pop();
        }
        // A word alone is no path: `pub(super)`, `mod child`, or any name.
        parts.peek()?;
        let mut deepest = self.at(&module);
        for part in parts {
            let mut below = module.clone();
            below.push(part);
            let Some(file) = self.at(&below) else { break };
            (deepest, module) = (Some(file), self.files[file].module.clone());
        }
        deepest
    }

    /// The file of a module.
    fn at(&self, module: &[&str]) -> Option<usize> {
        self.files.iter().position(|file| file.module == module)
    }

    /// The circles: each a largest set of files in which every one reaches every other.
    fn circles(&self) -> Vec<Vec<usize>> {
        let reached: Vec<Vec<usize>> = (0..self.files.len()).map(|file| self.reached(file)).collect();
        let mut circles: Vec<Vec<usize>> = Vec::new();
        for (file, reaches) in reached.iter().enumerate().filter(|(file, reaches)| reaches.contains(file)) {
            if !circles.iter().any(|circle| circle.contains(&file)) {
                circles.push(reaches.iter().copied().filter(|other| reached[*other].contains(&file)).collect());
            }
        }
        circles
    }

    /// All files that one imports, directly or through others; itself, where one of them leads back.
    fn reached(&self, file: usize) -> Vec<usize> {
        let (mut reached, mut next) = (Vec::new(), vec![file]);
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
            format!("\n  {}:{} takes `{}` from {}", path(import.from), import.line, import.path, path(import.to))
        };
        let arrows: String = self.imports.iter().filter(inside).map(arrow).collect();
        let remedy = "move what they share into a module below them, or hand it to the one that needs it";
        let what = format!("{} files import each other in a circle; {remedy}:{arrows}", circle.len());
        Breach::new(path(circle[0]), 0, what)
    }
}

/// The place of a file below `src` in the tree of modules; none for a further program, whose parts nobody else names.
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

    /// What is wrong with a crate of these files.
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
        assert!(found[0].what.contains("crates/a/src/c.rs:1 takes `super::b::g` from crates/a/src/b.rs"));
        assert_eq!(count(&[b, ("c.rs", "use crate::d;"), ("d.rs", "use crate::{b, e};")]), 1, "through a third");
        assert_eq!(count(&[b, ("c.rs", "use crate::d;"), ("d.rs", "use crate::e;")]), 0);
    }

    #[test]
    fn a_child_may_look_up() {
        let (parent, child) = (("b.rs", "mod c;\nuse c::C;"), ("b/c.rs", "use super::B;"));
        assert_eq!(count(&[parent, child]), 0);
        assert_eq!(count(&[parent, child, ("d.rs", "use crate::b::B;")]), 0);
        assert_eq!(count(&[parent, ("b/c.rs", "use crate::d;"), ("d.rs", "use crate::b::B;")]), 1, "through another");
        assert_eq!(count(&[("b.rs", ""), ("b/c.rs", "use super::d;"), ("b/d.rs", "use super::c;")]), 1, "children");
    }

    #[test]
    fn a_name_is_of_the_deepest_file_of_its_path() {
        let below = [("b.rs", "mod c;\nuse crate::d;"), ("b/c.rs", "struct C;")];
        assert_eq!(count(&[below[0], below[1], ("d.rs", "use crate::b::c::C;")]), 0);
        assert_eq!(count(&[below[0], below[1], ("d.rs", "use crate::b::{c::C, B};")]), 1);
        assert_eq!(count(&[below[0], below[1], ("d.rs", "use super::b::*;")]), 1);
    }

    #[test]
    fn what_is_no_import_does_not_count() {
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
