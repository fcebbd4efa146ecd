//! A document as a test reads it: its shell blocks, and the comment above each.

use std::fs;
use std::path::Path;

/// Whether and how a block runs.
#[derive(Debug)]
pub enum BlockPlan {
    /// It runs.
    Runs(Conditions),
    /// It does not, for this reason.
    NotRun(String),
    /// It is the content of this file, on this machine.
    File { path: String, machine: String },
}

/// How a block runs: `<!-- run at MACHINE, exit code N, while a copy runs -->`, of which every part may be left out.
#[derive(Debug)]
pub struct Conditions {
    /// The machines that it runs on, one after the other.
    pub machines: Vec<String>,
    /// The exit code of its last command.
    pub code: i32,
    /// Whether a copy is under way meanwhile; `ID` and `4f1c` in the block stand for its id.
    pub beside_copy: bool,
}

impl Default for Conditions {
    fn default() -> Conditions {
        Conditions { machines: vec!["here".to_owned()], code: 0, beside_copy: false }
    }
}

/// A fenced block.
#[derive(Debug)]
pub struct Block {
    /// The line of its first command, from 1.
    pub line: usize,
    pub text: String,
    pub plan: BlockPlan,
}

/// The blocks of a document of this repository that are shell, or the content of a file.
pub fn blocks(document: &str) -> Vec<Block> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(document);
    read(&fs::read_to_string(path).unwrap())
}

fn read(text: &str) -> Vec<Block> {
    let (mut blocks, mut above, mut lines) = (Vec::new(), "", text.lines().enumerate());
    while let Some((at, line)) = lines.next() {
        let Some(language) = line.trim_start().strip_prefix("```") else {
            above = line;
            continue;
        };
        let inside = lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim_start() != "```");
        let text: String = inside.map(|line| line.to_owned() + "\n").collect();
        let comment = above.strip_prefix("<!-- ").and_then(|comment| comment.strip_suffix(" -->"));
        let is_shell = ["sh", "bash", "console"].contains(&language.trim());
        let plan = match comment.map(plan_of) {
            None if is_shell => Some(BlockPlan::Runs(Conditions::default())),
            Some(BlockPlan::File { path, machine }) => Some(BlockPlan::File { path, machine }),
            other => other.filter(|_| is_shell),
        };
        blocks.extend(plan.map(|plan| Block { line: at + 2, text, plan }));
        above = "";
    }
    blocks
}

fn plan_of(comment: &str) -> BlockPlan {
    if let Some(reason) = comment.strip_prefix("not run: ") {
        return BlockPlan::NotRun(reason.to_owned());
    }
    if let Some((path, machine)) = comment.strip_prefix("file ").and_then(|rest| rest.split_once(" at ")) {
        return BlockPlan::File { path: path.to_owned(), machine: machine.to_owned() };
    }
    let rest = comment.strip_prefix("run ").unwrap_or_else(|| panic!("what does <!-- {comment} --> say of a block?"));
    let mut conditions = Conditions::default();
    for part in rest.split(", ") {
        match (part.strip_prefix("at "), part.strip_prefix("exit code ")) {
            (Some(machines), _) => conditions.machines = machines.split(" and ").map(str::to_owned).collect(),
            (_, Some(code)) => conditions.code = code.parse().unwrap(),
            _ if part == "while a copy runs" => conditions.beside_copy = true,
            _ => panic!("what does {part:?} in <!-- {comment} --> mean?"),
        }
    }
    BlockPlan::Runs(conditions)
}

#[test]
fn a_comment_decides_how_a_block_runs() {
    let text = "a\n```sh\nls\n```\n<!-- not run: why -->\n```sh\nx\ny\n```\n<!-- run at m1 and m2, exit code 4 -->\n\
                ```sh\nz\n```\n<!-- file /f at m1 -->\n```toml\nk = 1\n```\n```toml\nno = 1\n```\n";
    let blocks = read(text);
    assert_eq!(blocks.iter().map(|block| block.line).collect::<Vec<_>>(), [3, 7, 12, 16]);
    assert!(matches!(&blocks[0].plan, BlockPlan::Runs(how) if how.machines == ["here"] && how.code == 0));
    assert!(matches!(&blocks[1].plan, BlockPlan::NotRun(why) if why == "why") && blocks[1].text == "x\ny\n");
    assert!(matches!(&blocks[2].plan, BlockPlan::Runs(how) if how.machines == ["m1", "m2"] && how.code == 4));
    assert!(matches!(&blocks[3].plan, BlockPlan::File { path, machine } if path == "/f" && machine == "m1"));
}
