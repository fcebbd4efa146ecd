//! A page about a path that can be sent to another domain: what it should give, what it gives, what is wrong, what was measured. It is complete
//! in itself, runs no script and fetches nothing.

use std::fmt::Write as _;

use model::units::BitRate;
use model::v1::watch::{Explained, Health, History, Why};
use report::html::{self, text};

/// Columns of each history that are drawn.
const DRAWN: [(&str, &[&str]); 2] =
    [("latency", &["rtt_min_us", "rtt_median_us", "rtt_p95_us"]), ("throughput", &["rate_bit_s"])];

/// The mark of a health: health is shown as a word and a mark, never by a colour alone.
pub fn mark(health: Health) -> &'static str {
    match health {
        Health::Ok => "+",
        Health::Warning => "!",
        Health::Critical => "X",
        Health::Unknown => "?",
    }
}

/// The page about a path.
pub fn evidence(why: &Why, histories: &[History]) -> String {
    let mut body = String::new();
    let title = format!("{} to {}", why.from, why.to);
    let rtt = why.rtt_s.map_or(String::new(), |rtt| format!(", {:.1} ms", rtt * 1e3));
    let _ = write!(body, "<h1>{}</h1><p class=\"soft\">{}{rtt}</p>", text(&title), text(&why.at));
    for (name, side) in [("Forward", &why.forward), ("Reverse", &why.reverse)] {
        direction(&mut body, name, side);
    }
    body.push_str("<h2>What is wrong</h2>");
    if why.alarms.is_empty() {
        body.push_str("<p class=\"well\">Nothing that these tests can see.</p>");
    }
    for alarm in &why.alarms {
        let direction = alarm.direction.map_or("both directions", model::v1::probe::Direction::word);
        let _ = write!(
            body,
            "<div class=\"cause\"><p><strong>{} {}, {direction}</strong> since {}: {}</p><p>Cause: {}. Where: {}.</p><p>{}</p></div>",
            alarm.severity.word(),
            alarm.kind.word(),
            text(&alarm.since),
            text(&alarm.evidence),
            alarm.cause.word(),
            text(&alarm.segment),
            text(&alarm.remedy)
        );
        if let Some(event) = &alarm.event {
            let _ = write!(body, "<p>At about that time: {}</p>", text(event));
        }
    }
    let tests: Vec<String> = why.tests.iter().map(|test| text(test).to_string()).collect();
    let _ = write!(body, "<h2>What is measured</h2><p>{}</p>", tests.join("; "));
    histories.iter().for_each(|history| charts(&mut body, history));
    html::page(&title, &body)
}

fn direction(body: &mut String, name: &str, side: &Explained) {
    let rate = |bit_s: f64| BitRate(bit_s.max(0.0) as u64).to_string();
    let share = |loss: Option<f64>| loss.map_or("not known".to_owned(), |loss| format!("{:.5} %", loss * 100.0));
    let _ = write!(
        body,
        "<h2>{name}: {} {}</h2><dl class=\"facts\"><div><dt>Expected</dt><dd>{}</dd></div><div><dt>TCP gets</dt><dd>{}</dd></div>\
         <div><dt>Lost in 6 h</dt><dd>{}</dd></div><div><dt>Lost in 24 h</dt><dd>{} of {} packets</dd></div>\
         <div><dt>May be lost</dt><dd>{}</dd></div><div><dt>MTU</dt><dd>{}</dd></div></dl>",
        mark(side.health),
        side.health.word(),
        side.expectation.rate_bit_s.map_or("not known".to_owned(), rate),
        side.throughput_bit_s.map_or("not known".to_owned(), rate),
        share(side.loss_6h),
        share(side.loss_24h),
        side.packets_24h,
        side.expectation.loss_allowed.map_or("not known".to_owned(), |loss| format!("{loss:.1e}")),
        side.mtu_bytes.map_or("not known".to_owned(), |mtu| format!("{mtu} bytes")),
    );
    if !side.expectation.terms.is_empty() {
        body.push_str("<div class=\"wide\"><table><caption>What bounds it, the least first</caption><tbody>");
        for term in &side.expectation.terms {
            let _ = write!(
                body,
                "<tr><th>{}</th><td>{}</td><td>{}</td></tr>",
                text(&term.name),
                rate(term.rate_bit_s),
                text(&term.text)
            );
        }
        body.push_str("</tbody></table></div>");
    }
    if !side.hops.is_empty() {
        let hops: Vec<&str> = side.hops.iter().map(|hop| if hop.is_empty() { "*" } else { hop }).collect();
        let _ = write!(body, "<p class=\"soft\">Routers: {}</p>", text(&hops.join(", ")));
    }
}

fn charts(body: &mut String, history: &History) {
    let Some((_, drawn)) = DRAWN.iter().find(|(test, _)| history.test.starts_with(test)) else { return };
    let _ = write!(body, "<h2>{}</h2>", text(&history.test));
    let lost = ["lost_forward", "lost_reverse", "lost_unplaced"];
    let sum = |name: &str| {
        let column = history.columns.iter().position(|column| column == name)?;
        Some(history.rows.iter().filter_map(|row| row.get(column).copied().flatten()).sum::<f64>())
    };
    if history.test == "latency" {
        let totals: Vec<String> = lost.iter().filter_map(|name| Some(format!("{name} {}", sum(name)?))).collect();
        let _ = write!(body, "<p>Of {} packets: {}.</p>", sum("sent").unwrap_or(0.0), text(&totals.join(", ")));
    }
    body.push_str("<details open=\"open\"><summary>Numbers</summary><div class=\"wide\"><table class=\"numbers\"><thead><tr><th>from</th>");
    for name in *drawn {
        let _ = write!(body, "<th>{}</th>", text(name));
    }
    body.push_str("</tr></thead><tbody>");
    let columns: Vec<Option<usize>> =
        drawn.iter().map(|name| history.columns.iter().position(|column| column == name)).collect();
    let step = history.rows.len().div_ceil(ROWS_SHOWN).max(1);
    for row in history.rows.iter().step_by(step) {
        let at = row.first().copied().flatten().unwrap_or(0.0);
        let _ = write!(body, "<tr><td>{}</td>", crate::time::show((at * 1e3) as i64));
        for column in &columns {
            let value = column.and_then(|column| row.get(column).copied().flatten());
            let _ = write!(body, "<td>{}</td>", value.map_or("-".to_owned(), |value| format!("{value}")));
        }
        body.push_str("</tr>");
    }
    body.push_str("</tbody></table></div></details>");
}

/// The largest number of rows in a table.
const ROWS_SHOWN: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_shows_alarms_and_numbers_and_escapes_names() {
        let why = Why {
            from: "<a>".into(),
            to: "b".into(),
            tests: vec!["latency every 1 min 00 s".into()],
            ..Why::default()
        };
        let columns =
            ["at_s", "sent", "lost_forward", "rtt_min_us", "rtt_median_us", "rtt_p95_us"].map(str::to_owned).to_vec();
        let rows = vec![vec![Some(60.0), Some(600.0), Some(2.0), Some(150_000.0), None, Some(151_000.0)]];
        let history = History { test: "latency".into(), columns, rows, ..History::default() };
        let page = evidence(&why, &[history]);
        assert!(page.contains("&lt;a&gt; to b") && !page.contains("<a>"));
        assert!(
            page.contains("Nothing that these tests can see")
                && page.contains("lost_forward 2")
                && page.contains("1970-01-01T00:01:00Z")
        );
        assert!(page.contains("<td>-</td>"), "a gap stays a gap");
    }
}
