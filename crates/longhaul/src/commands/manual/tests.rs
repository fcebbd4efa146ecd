//! Checks the documents: the program accepts their commands, has their options, and reads their settings files. `docs/results` is
//! not checked: it is about earlier versions.

use std::fs;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{Arg, Command, CommandFactory};

use crate::args::Args;
use crate::client_config::ClientConfig;
use crate::commands::data::subscriptions;
use crate::commands::{hub, serve};
use crate::failure::Failure;

/// Commands of `longhaul` that documents write without the program's name.
const UNPREFIXED_COMMANDS: [&str; 8] = ["cp", "job", "probe", "tune", "serve", "grant", "lab", "digest"];

/// A document: its path below the root, and its text.
struct Document {
    path: String,
    text: String,
}

fn documents() -> Vec<Document> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let below = |dir: &str| -> Vec<PathBuf> {
        let entries = fs::read_dir(root.join(dir)).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect()
    };
    let all = ["", "docs", "docs/design"].into_iter().flat_map(below);
    let all = all.map(|path| Document {
        text: fs::read_to_string(&path).unwrap(),
        path: path.strip_prefix(&root).unwrap().display().to_string(),
    });
    let all: Vec<Document> = all.collect();
    assert!(all.len() > 10, "the documents were not found");
    all
}

impl Document {
    /// The fenced blocks of a language, each with the line in which it begins.
    fn blocks(&self, language: &str) -> Vec<(usize, String)> {
        let mut blocks: Vec<(usize, String)> = Vec::new();
        let mut open: Option<bool> = None;
        for (n, line) in self.text.lines().enumerate() {
            match (line.trim_start().strip_prefix("```"), open) {
                (Some(info), None) => {
                    open = Some(info.trim() == language);
                    blocks.extend(open.filter(|wanted| *wanted).map(|_| (n + 2, String::new())));
                }
                (Some(_), Some(_)) => open = None,
                (None, Some(true)) => {
                    let (_, block) = blocks.last_mut().unwrap();
                    block.push_str(line);
                    block.push('\n');
                }
                (None, _) => {}
            }
        }
        blocks
    }

    /// The texts between single backticks outside of blocks, each with its line. Such a text may contain the end of a line.
    fn spans(&self) -> Vec<(usize, String)> {
        let mut spans = Vec::new();
        let mut inside = false;
        let open: Vec<&str> = self
            .text
            .lines()
            .map(|line| {
                let is_fence = line.trim_start().starts_with("```");
                inside ^= is_fence;
                if inside || is_fence { "" } else { line }
            })
            .collect();
        let mut open_span: Option<(usize, String)> = None;
        for (n, line) in open.iter().enumerate() {
            // A backtick that was never closed ends with its paragraph.
            open_span = open_span.filter(|_| !line.is_empty());
            for (at, piece) in line.split('`').enumerate() {
                if at > 0 {
                    match open_span.take() {
                        Some(span) => spans.push(span),
                        None => open_span = Some((n + 1, String::new())),
                    }
                }
                if let Some((_, span)) = &mut open_span {
                    span.push_str(piece);
                }
            }
            if let Some((_, span)) = &mut open_span {
                span.push(' ');
            }
        }
        spans
    }
}

/// The simple commands of a shell script, each with its line from 0: words without quotes, comments and redirections.
fn commands(script: &str) -> Vec<(usize, Vec<String>)> {
    let mut all: Vec<(usize, Vec<String>)> = vec![(0, Vec::new())];
    let mut word = None::<String>;
    let mut quote = None::<char>;
    let mut depth = 0;
    let mut line = 0;
    let mut chars = script.chars().peekable();
    while let Some(c) = chars.next() {
        line += usize::from(c == '\n');
        match (c, quote) {
            // A command substitution within a word is not an option.
            ('$', _) if chars.peek() == Some(&'(') => depth += 1,
            (')', _) if depth > 0 => depth -= 1,
            _ if depth > 0 => word.get_or_insert_default().push('_'),
            (_, Some(open)) if c == open => quote = None,
            (_, Some(_)) => word.get_or_insert_default().push(c),
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            ('\\', None) => {
                let next = chars.next();
                line += usize::from(next == Some('\n'));
                next.filter(|next| *next != '\n').into_iter().for_each(|next| word.get_or_insert_default().push(next));
            }
            ('#', None) if word.is_none() => while chars.next_if(|next| *next != '\n').is_some() {},
            (' ' | '\n' | ';' | '|' | '&' | '<' | '>', None) => {
                all.last_mut().unwrap().1.extend(word.take());
                match c {
                    ' ' => {}
                    '<' | '>' => all.last_mut().unwrap().1.push(">".into()),
                    _ => all.push((line, Vec::new())),
                }
            }
            (_, None) => word.get_or_insert_default().push(c),
        }
    }
    all.last_mut().unwrap().1.extend(word);
    all.iter_mut().for_each(|(_, words)| without_redirections(words));
    all.retain(|(_, words)| !words.is_empty());
    all
}

fn without_redirections(words: &mut Vec<String>) {
    while let Some(at) = words.iter().position(|word| word == ">") {
        words.drain(at..(at + 2).min(words.len()));
    }
}

/// The commands of `longhaul` in the words of a command, each from the program's name on: after assignments, after `sudo`, and
/// after `--` of another command of `longhaul`.
fn longhaul_commands(words: &[String]) -> Vec<&[String]> {
    let is_ours = |word: &String| word == "longhaul" || word.ends_with("/longhaul");
    let begins = |at: usize| {
        let before = &words[..at];
        // Not `sudo systemctl restart longhaul`, nor the user of `sudo -u longhaul`.
        let option = before.get(1).map_or("", String::as_str);
        let own_place = if option == "-u" { at == 3 } else { at == 1 || at == 2 && option.starts_with('-') };
        let sudo = before.first().is_some_and(|first| first == "sudo") && own_place;
        let assigned = before.iter().all(|word| word.split_once('=').is_some_and(|(name, _)| !name.contains('-')));
        at == 0 || sudo || assigned || words[at - 1] == "--"
    };
    let all = (0..words.len()).filter(|at| is_ours(&words[*at]) && begins(*at));
    all.map(|at| &words[at..]).collect()
}

/// The error of a complete command, if it has one.
fn command_error(words: &[String]) -> Option<String> {
    let error = Args::command().try_get_matches_from(words).err()?;
    let is_answer = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    (!is_answer).then(|| format!("{}: {}", words.join(" "), error.to_string().lines().next().unwrap_or_default()))
}

/// The error of a command in prose, if it has one. Parts may be left out, and `a|b` stands for one of several words.
fn prose_error(text: &str) -> Option<String> {
    let mut root = Args::command();
    root.build();
    let mut at = &root;
    let mut parents: Vec<&Command> = Vec::new();
    let mut wants_value = false;
    let text = text.replace("\\|", "|");
    let known = |word: &&str| *word == "longhaul" || *word == env!("CARGO_PKG_VERSION");
    let mut words = text.split_whitespace().skip_while(known);
    while let Some(word) = words.next().filter(|word| *word != "--" && *word != "…") {
        if word.starts_with('-') && word.len() > 1 {
            let found = parents.iter().chain([&at]).find_map(|command| option(command, word));
            let Some(found) = found else { return Some(format!("`{text}`: {} has no option {word}", at.get_name())) };
            wants_value = found.get_action().takes_values() && !word.contains('=');
            continue;
        }
        let is_value = std::mem::take(&mut wants_value);
        let named: Vec<Option<&Command>> = word.split('|').map(|name| at.find_subcommand(name)).collect();
        match &named[..] {
            _ if is_value || at.get_positionals().next().is_some() => {}
            [Some(one)] => {
                parents.push(at);
                at = one;
            }
            several if several.iter().all(Option::is_some) => break,
            _ => return Some(format!("`{text}`: {} knows no {word}", at.get_name())),
        }
    }
    None
}

/// The option that is meant by `--long`, `--long=value` or `-s`.
fn option<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let mut arguments = command.get_arguments();
    match word.strip_prefix("--") {
        Some(long) => {
            let long = long.split(['=', '|']).next();
            arguments.find(|arg| arg.get_long() == long)
        }
        None => {
            let short = word.chars().nth(1);
            arguments.find(|arg| arg.get_short() == short)
        }
    }
}

#[test]
fn the_program_accepts_the_commands_in_the_documents() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for document in documents() {
        for (first, block) in document.blocks("sh") {
            for (line, words) in commands(&block) {
                for command in longhaul_commands(&words) {
                    seen += 1;
                    wrong
                        .extend(command_error(command).map(|why| format!("{}:{}: {why}", document.path, first + line)));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(seen > 80, "only {seen} commands were found");
}

#[test]
fn options_of_commands_in_prose_exist() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for document in documents() {
        for (line, span) in document.spans() {
            let first = span.split_whitespace().next().unwrap_or_default();
            // `cp -r` and `lab` may mean other things: without `longhaul`, only a span with a long option is checked.
            let is_meant = first == "longhaul" || UNPREFIXED_COMMANDS.contains(&first) && span.contains(" --");
            if is_meant {
                seen += 1;
                wrong.extend(prose_error(&span).map(|why| format!("{}:{line}: {why}", document.path)));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(seen > 80, "only {seen} commands were found");
}

fn client_config(text: &str) -> Result<(), Failure> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.toml");
    fs::write(&path, text).unwrap();
    ClientConfig::read(&path).map(drop)
}

/// The network of the example in docs/design/forwarding.md.
const FORWARDING_NETWORK: &str =
    "[site.perth]\n[site.singapore]\n[site.london]\n[path.perth-singapore]\n[path.singapore-london]\n";

#[test]
fn settings_files_in_the_documents_can_be_read() {
    let mut seen = 0;
    let network = ::lab::Scenario::read(FORWARDING_NETWORK).unwrap();
    for document in documents() {
        for (line, block) in document.blocks("toml") {
            seen += 1;
            let node = toml::from_str::<serve::SettingsFile>(&block).map(drop).map_err(|e| e.to_string());
            let policy = auth::Policy::parse(&block).map(drop).map_err(|e| e.to_string());
            let scenario = ::lab::Scenario::read(&block).map(drop).map_err(|e| e.to_string());
            let client = client_config(&block).map_err(|e| format!("{e:?}"));
            let hub = hub::settings(&block).map_err(|e| format!("{e:?}"));
            let messages = hub::messages_settings(&block).map_err(|e| format!("{e:?}"));
            let watch = ::watch::config::Config::parse(&block).map(drop).map_err(|e| e.to_string());
            let subscriptions =
                toml::from_str::<subscriptions::SubscriptionFile>(&block).map(drop).map_err(|e| e.to_string());
            let forwarding =
                ::scenario::forwarding::Forwarding::read(&block, &network).map(drop).map_err(|e| e.to_string());
            let exercise = ::exercise::Exercise::read(&block).map(drop).map_err(|e| e.to_string());
            let all =
                [&node, &policy, &scenario, &client, &hub, &messages, &watch, &subscriptions, &forwarding, &exercise];
            let reads = all.iter().any(|read| read.is_ok());
            assert!(
                reads,
                "{}:{line} is neither a node's settings ({node:?}) nor a client's ({client:?}) nor a policy ({policy:?}) nor a \
                 scenario ({scenario:?}) nor a hub's settings ({hub:?}) nor its brokers ({messages:?}) nor a watch's ({watch:?}) nor subscriptions ({subscriptions:?}) \
                 nor tables of virtual networks ({forwarding:?}) nor an exercise ({exercise:?})",
                document.path
            );
        }
    }
    assert!(seen > 2, "only {seen} files were found");
}

#[test]
fn help_names_every_digest() {
    let command = Args::command();
    let digest = command.find_subcommand("digest").unwrap();
    let help = option(digest, "--checksum").unwrap().get_help().unwrap().to_string();
    for algorithm in model::Algorithm::ALL {
        assert!(help.contains(algorithm.name()), "{algorithm} in {help:?}");
    }
}

#[test]
fn a_wrong_command_in_a_document_is_found() {
    let script = "A=\"$(cat x; y)\" longhaul ls lh://h/ # longhaul no\nsudo -u d longhaul lab exec a -- longhaul cp a b > f; \
                  echo longhaul x\nlonghaul cp --nothing a \\\n  b | cat\n";
    let found: Vec<(usize, Vec<String>)> = commands(script);
    let ours: Vec<(usize, String)> = found
        .iter()
        .flat_map(|(line, words)| longhaul_commands(words).into_iter().map(|ours| (*line, ours.join(" "))))
        .collect();
    let ours: Vec<(usize, &str)> = ours.iter().map(|(line, text)| (*line, text.as_str())).collect();
    let exec = "longhaul lab exec a -- longhaul cp a b";
    assert_eq!(ours, [(0, "longhaul ls lh://h/"), (1, exec), (1, "longhaul cp a b"), (2, "longhaul cp --nothing a b")]);
    let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
    assert_eq!((command_error(&words(exec)), command_error(&words("longhaul --version"))), (None, None));
    assert!(command_error(&words("longhaul cp --nothing a b")).unwrap().contains("--nothing"));
    assert!(command_error(&words("longhaul cp --limit 5 a b")).is_some());
    for fine in
        ["longhaul job list|show ID --node lh://h", "cp -r S T", "longhaul help", "probe tcp H -P 4", "grant list"]
    {
        assert_eq!(prose_error(fine), None);
    }
    for wrong in
        ["longhaul jobs", "longhaul cp --no-such A B", "tune audit --rat 1", "longhaul job list|hide", "cp -Z A B"]
    {
        assert!(prose_error(wrong).is_some(), "{wrong}");
    }
}
