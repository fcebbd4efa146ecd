//! `longhaul exercise scorecard`: data sets from one node to another, graded beside what path and disks can give.

use std::fmt::Write as _;

use exercise::data_set::DataSet;
use exercise::grade::FlowGrade;
use exercise::page::rate_text;
use exercise::record::{PhaseRecord, RunRecord};
use exercise::score::{Grade, ReferenceProfile, ScoreCard, ScoreRow, ScoreTable, StageLimits, text};
use model::Exit;
use report::html::{self, Table};

use super::run::{LoadedExercise, run_loaded, write_file};
use crate::args::ExerciseScorecard;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

/// The phases that measure the stages, each of this length.
const STAGE: &str = "15s";
const PATH: &str = "path";
const READ: &str = "read";
const WRITE: &str = "write";
/// Bytes from memory in such a phase: more than a path of 400 Gbit/s carries in its time.
const STAGE_BYTES: f64 = 1e12;
/// Bytes of a disk in such a phase, before it begins again: those of some seconds at the speed of the interface, but files must be made before.
const DISK_S: f64 = 5.0;
const DISK_BYTES: [f64; 2] = [64e6, 20e9];

/// Runs the command.
///
/// # Errors
/// A data set is unknown, a node does not take part, or nothing can begin.
pub fn run(args: &ExerciseScorecard, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let sets = sets(args)?;
    let loaded = LoadedExercise::read("scorecard", "longhaul exercise scorecard", exercise_text(args, &sets))?;
    let record = run_loaded(&loaded, &args.at, settings, printer)?;
    let reference = args.reference.as_deref().map(reference).transpose()?;
    let title = format!("{} to {}", args.from, args.to);
    let nic_bit_s = args.nic.0 as f64;
    let table = ScoreTable::new(title, ScoreCard::TERASCALE, nic_bit_s, reference, rows(&record, &sets));
    printer.line(&text(&table));
    for missing in &record.missing {
        printer.line(&format!("missing: {missing}"));
    }
    if let Some(out) = &args.out {
        write_file(out, &page(&table, &record))?;
        printer.line(&out.display().to_string());
    }
    Ok(if table.grade() == Grade::Fail { Exit::Failed } else { Exit::Done })
}

fn sets(args: &ExerciseScorecard) -> Result<Vec<DataSet>, Failure> {
    let all = || DataSet::ALL.into_iter().filter(|set| set.name().starts_with("ds")).collect();
    if args.sets.is_empty() {
        return Ok(all());
    }
    let find = |name: &String| {
        DataSet::of_name(name).ok_or_else(|| {
            let known: Vec<&str> = DataSet::ALL.iter().map(DataSet::name).collect();
            Failure::usage(format!("{name} is no data set; write one of {}", known.join(", ")))
        })
    };
    args.sets.iter().map(find).collect()
}

fn reference(name: &str) -> Result<ReferenceProfile, Failure> {
    ReferenceProfile::of_name(name).ok_or_else(|| {
        let known: Vec<String> = ReferenceProfile::all().iter().map(|profile| profile.name.to_string()).collect();
        Failure::usage(format!("{name} is no reference; write one of {}", known.join(", ")))
    })
}

/// The exercise of a score card: the stages first, then each data set once.
fn exercise_text(args: &ExerciseScorecard, sets: &[DataSet]) -> String {
    let mut text = format!("[exercise]\ntitle = \"score card\"\nscale = {:?}\n", args.scale);
    let (from, to) = match &args.lab {
        Some(lab) => {
            let _ = writeln!(text, "[lab]\nscenario = {lab:?}\n[site.{}]\n[site.{}]", args.from, args.to);
            (args.from.as_str(), args.to.as_str())
        }
        None => {
            for (site, node, key) in [("from", &args.from, &args.from_key), ("to", &args.to, &args.to_key)] {
                let key = key.as_ref().map(|key| key.display().to_string()).unwrap_or_default();
                let _ = writeln!(text, "[site.{site}]\nnode = {node:?}\nkey_file = {key:?}");
            }
            ("from", "to")
        }
    };
    let [least, most] = DISK_BYTES;
    let disk_bytes = (args.nic.0 as f64 / 8.0 * DISK_S).clamp(least, most);
    for (class, medium, bytes) in
        [(PATH, "memory", STAGE_BYTES), (READ, "read", disk_bytes), (WRITE, "write", disk_bytes)]
    {
        // What a stage gives does not depend on the scale of the sets.
        let _ = writeln!(text, "[class.{class}]\nsize = \"{:.0}B\"\nmedium = \"{medium}\"", bytes / args.scale);
    }
    for (class, from, to) in [(PATH, from, to), (READ, from, from), (WRITE, to, to)] {
        let _ = writeln!(
            text,
            "[[phase]]\nname = \"{class}\"\nlasts = \"{STAGE}\"\n[[phase.flow]]\nfrom = \"{from}\"\nto = \"{to}\"\nclass = \"{class}\""
        );
    }
    for set in sets {
        let name = set.name();
        let _ = writeln!(
            text,
            "[class.{name}]\nset = \"{name}\"\n[[phase]]\nname = \"{name}\"\n[[phase.flow]]\nfrom = \"{from}\"\nto = \"{to}\"\nclass = \"{name}\""
        );
    }
    text
}

/// The rows of the card. The stages are what their phases attained at most, or their fastest round: between two rounds nothing moves for a moment.
fn rows(record: &RunRecord, sets: &[DataSet]) -> Vec<ScoreRow> {
    let phase = |name: &str| record.phases.iter().find(|phase| phase.name == name);
    let stage = |name: &str| {
        let flow = phase(name)?.flows.first()?;
        let whole = flow.rounds.iter().filter(|round| round.state == "done" && round.seconds > 0.0);
        let rates = whole.map(|round| round.bytes as f64 * 8.0 / round.seconds);
        rates.chain(FlowGrade::of(flow).attained.map(|attained| attained.max)).reduce(f64::max)
    };
    let limits = StageLimits { path_bit_s: stage(PATH), read_bit_s: stage(READ), write_bit_s: stage(WRITE) };
    let row = |set: &DataSet| Some(score_row(set, phase(set.name())?, limits));
    sets.iter().filter_map(row).collect()
}

fn score_row(set: &DataSet, phase: &PhaseRecord, limits: StageLimits) -> ScoreRow {
    let rounds = || phase.flows.iter().flat_map(|flow| &flow.rounds);
    ScoreRow {
        data_set: set.name().to_owned(),
        files: rounds().map(|round| round.files).sum(),
        bytes: rounds().map(|round| round.bytes).sum(),
        seconds: rounds().map(|round| round.seconds).sum(),
        errors: rounds().map(|round| round.failed + u64::from(round.error.is_some())).sum(),
        limits,
    }
}

/// The card as a page that can be sent.
fn page(table: &ScoreTable, record: &RunRecord) -> String {
    let class = if table.grade() == Grade::Fail { "bad" } else { "good" };
    let mut body = format!(
        "<h1>Score card: {}</h1><div class=\"verdict {class}\"><p>{}: {} on the card of 1 TB in an hour.</p></div>",
        html::brief(&table.title),
        rate_text(table.rate_bit_s()),
        table.grade().word()
    );
    let heads = [
        "data set",
        "files",
        "bytes",
        "time",
        "rate",
        "grade",
        "of what is possible",
        "limit",
        "of the reference",
        "errors",
    ];
    let mut rows = Table::new("numbers", "Data sets, moved once each", &heads);
    for result in &table.results {
        let part = |part: Option<f64>| part.map_or_else(|| "-".to_owned(), |part| format!("{:.0} %", part * 100.0));
        rows.row(&[
            result.row.data_set.clone(),
            result.row.files.to_string(),
            model::units::Bytes(result.row.bytes).to_string(),
            format!("{:.1} s", result.row.seconds),
            rate_text(result.rate_bit_s),
            result.grade.word().to_owned(),
            part(result.fraction),
            format!("{:?}", result.binds).to_lowercase(),
            part(result.of_reference),
            result.row.errors.to_string(),
        ]);
    }
    body += &rows.end();
    body += &exercise::page::sections(record);
    html::page(&format!("Score card: {}", table.title), &body)
}
