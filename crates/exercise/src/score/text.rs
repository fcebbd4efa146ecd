//! A score table as text: 80 columns, and with eight data sets not more than the 24 lines of a terminal.

use model::units::{BitRate, Bytes};

use super::{BindingStage, ScoreResult, ScoreTable};

/// What stands where nothing was measured.
const NONE: &str = "–";

/// Characters of a line.
const COLUMNS: usize = 80;

/// The table as text, with a line for each data set.
pub fn text(table: &ScoreTable) -> String {
    let mut lines = head(table);
    lines.push(String::new());
    lines.push(cells(&Cells {
        data_set: "data set",
        files: "files",
        size: "size",
        time: "time",
        rate: "Gbit/s",
        grade: "grade",
        limit: "limit",
        reference: "ref",
        binds: "binds",
        errors: "err",
    }));
    lines.extend(table.results.iter().map(row));
    lines.push(String::new());
    lines.extend(foot(table));
    lines.iter().map(|line| format!("{}\n", shortened(line.trim_end(), COLUMNS))).collect()
}

/// What the rows are judged by.
fn head(table: &ScoreTable) -> Vec<String> {
    let column = table.card.column(table.nic_bit_s);
    let class = BitRate(column.network_bit_s().round() as u64);
    let nic = BitRate(table.nic_bit_s.round() as u64);
    let mut lines = vec![
        table.title.clone(),
        format!("card   {} ({}); class of {nic}: {}, {class}", table.card.name, table.card.goal, column.class),
    ];
    if let Some(reference) = &table.reference {
        lines.push(format!("ref    {}: {}", reference.name, reference.source));
    }
    lines
}

/// The sum, and what the columns mean.
fn foot(table: &ScoreTable) -> Vec<String> {
    let rate = BitRate(table.rate_bit_s().round() as u64);
    let mut lines = vec![
        format!("all    {rate}, grade {}", table.grade().word()),
        "grade  A: the class of the interface; pass: 1 TB an hour".to_owned(),
        "limit  the rate as a part of the slowest stage that was measured".to_owned(),
    ];
    let mut legend = |stage: BindingStage, meaning: &str| {
        if table.results.iter().any(|result| result.binds == stage) {
            lines.push(format!("binds  {}: {meaning}", word(stage)));
        }
    };
    legend(BindingStage::Neither, "neither path nor disk: files, sessions or processors");
    legend(BindingStage::Exceeded, "faster than the slowest stage: measure the stages again");
    legend(BindingStage::Unknown, "no stage was measured");
    lines
}

fn row(result: &ScoreResult) -> String {
    let row = &result.row;
    cells(&Cells {
        data_set: &row.data_set,
        files: &count(row.files),
        size: &Bytes(row.bytes).to_string(),
        time: &time(row.seconds),
        rate: &format!("{:.*}", if result.rate_bit_s < 99.95e9 { 2 } else { 1 }, result.rate_bit_s / 1e9),
        grade: result.grade.word(),
        limit: &part(result.fraction),
        reference: &part(result.of_reference),
        binds: word(result.binds),
        errors: &errors(row.errors),
    })
}

/// The cells of a line.
struct Cells<'a> {
    data_set: &'a str,
    files: &'a str,
    size: &'a str,
    time: &'a str,
    rate: &'a str,
    grade: &'a str,
    limit: &'a str,
    reference: &'a str,
    binds: &'a str,
    errors: &'a str,
}

/// The widths add up to [`COLUMNS`]; the names of ESnet's sets have 20 characters.
fn cells(cells: &Cells<'_>) -> String {
    let Cells { data_set, files, size, time, rate, grade, limit, reference, binds, errors } = cells;
    let data_set = shortened(data_set, 20);
    format!("{data_set:20}{files:>7}{size:>9}{time:>8}{rate:>8}{grade:>6}{limit:>6}{reference:>6}{binds:>6}{errors:>4}")
}

/// A text of at most `width` characters; an ellipsis stands for what is cut off.
fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width - 1).chain(['…']).collect()
}

/// A count in six characters.
fn count(count: u64) -> String {
    match count {
        0..=999_999 => count.to_string(),
        1_000_000..=999_999_999 => format!("{}M", count / 1_000_000),
        _ => format!("{}G", (count / 1_000_000_000).min(9_999)),
    }
}

/// Errors in three characters.
fn errors(errors: u64) -> String {
    if errors <= 999 { errors.to_string() } else { ">1k".to_owned() }
}

/// A time in seven characters.
fn time(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return NONE.to_owned();
    }
    let whole = seconds.round() as u64;
    match seconds {
        s if s < 119.95 => format!("{s:.1}s"),
        s if s < 7_200.0 => format!("{}m{:02}s", whole / 60, whole % 60),
        s if s < 360_000.0 => format!("{}h{:02}m", whole / 3_600, whole % 3_600 / 60),
        s => format!("{:.0}d", (s / 86_400.0).min(99_999.0)),
    }
}

/// A part of a whole in five characters.
fn part(part: Option<f64>) -> String {
    match part {
        Some(part) if part.is_finite() && part < 9.995 => format!("{:.0}%", part * 100.0),
        Some(part) if part.is_finite() && part < 999.5 => format!("{part:.0}x"),
        Some(_) => ">999x".to_owned(),
        None => NONE.to_owned(),
    }
}

fn word(stage: BindingStage) -> &'static str {
    match stage {
        BindingStage::Path => "path",
        BindingStage::Read => "read",
        BindingStage::Write => "write",
        BindingStage::Neither => "none",
        BindingStage::Exceeded => "over",
        BindingStage::Unknown => NONE,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ReferenceProfile, ScoreCard, ScoreRow, StageLimits};
    use super::*;
    use crate::data_set::DataSet;

    fn table(rows: Vec<ScoreRow>, reference: Option<ReferenceProfile>) -> ScoreTable {
        ScoreTable::new("cern to canberra, 7 May 2026".into(), ScoreCard::TERASCALE, 10e9, reference, rows)
    }

    fn epoc_rows(seconds_per_gb: f64) -> Vec<ScoreRow> {
        let limits = StageLimits { path_bit_s: Some(9.4e9), read_bit_s: Some(16e9), write_bit_s: Some(12e9) };
        let sets = DataSet::ALL.into_iter().filter(|set| !set.is_published());
        sets.map(|set| ScoreRow {
            data_set: set.name().into(),
            files: set.count(),
            bytes: set.bytes(1.0),
            seconds: set.bytes(1.0) as f64 / 1e9 * seconds_per_gb + set.count() as f64 * 0.001,
            errors: 0,
            limits,
        })
        .collect()
    }

    #[test]
    fn eight_sets_fit_a_terminal() {
        let shown = text(&table(epoc_rows(0.9), ReferenceProfile::of_name("epoc-log-2020")));
        assert!(shown.lines().count() <= 24, "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        let expected = "\
cern to canberra, 7 May 2026
card   terascale (1 TB in an hour); class of 10.0 Gbit/s: terascale, 2.22 Gbit/s
ref    epoc-log-2020: a campus with 10 Gbit/s, by Globus with checksums, 12/2020

data set              files     size    time  Gbit/s grade limit   ref binds err
ds01                  10000 95.4 MiB   10.1s    0.08  fail    1%  152%  none   0
ds04                   1000 9.31 GiB   10.0s    8.00     A   85%  219%  path   0
ds06                  10000 93.1 GiB  100.0s    8.00     A   85%  176%  path   0
ds08                  10000  931 GiB  15m10s    8.79     A   94%  168%  path   0
ds10                   1000  931 GiB  15m01s    8.88     A   94%  162%  path   0
ds12                   5000 93.1 GiB   95.0s    8.42     A   90%  283%  path   0
ds14                    500 4.55 TiB  75m01s    8.89     A   95%  163%  path   0
ds16                     10  931 GiB  15m00s    8.89     A   95%  164%  path   0

all    8.84 Gbit/s, grade A
grade  A: the class of the interface; pass: 1 TB an hour
limit  the rate as a part of the slowest stage that was measured
binds  none: neither path nor disk: files, sessions or processors
";
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_stage_that_was_not_measured_is_a_dash() {
        let mut rows = epoc_rows(0.9);
        rows.truncate(1);
        rows[0].limits = StageLimits::default();
        rows[0].data_set = "500GB-in-large-files".into();
        let shown = text(&table(rows, None));
        let cells: Vec<&str> =
            shown.lines().find(|line| line.starts_with("500GB")).unwrap().split_whitespace().skip(6).collect();
        assert_eq!(cells, ["fail", NONE, NONE, NONE, "0"]);
        assert!(shown.contains("no stage was measured"), "{shown}");
        assert!(!shown.contains("none: neither"), "{shown}");
    }

    #[test]
    fn no_number_makes_a_line_longer() {
        let numbers = [0.0, 1e-9, 119.99, 7_199.9, 359_999.0, 1e9, f64::MAX, f64::NAN, f64::INFINITY, -1.0];
        let counts = [0, 999_999, 1_000_000, u64::MAX];
        for seconds in numbers {
            for count in counts {
                let limits = StageLimits { path_bit_s: Some(1e-3), ..StageLimits::default() };
                let row =
                    ScoreRow { data_set: "x".repeat(99), files: count, bytes: count, seconds, errors: count, limits };
                let shown = text(&table(vec![row], None));
                let too_long = shown.lines().find(|line| line.chars().count() > 80);
                // A rate that no network has may be cut off.
                assert_eq!(too_long, None, "{seconds} {count}");
            }
        }
    }
}
