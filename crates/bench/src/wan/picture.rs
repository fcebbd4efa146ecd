//! Rate against RTT as SVG: a column per set, a row per loss, a line per tool.

use std::fmt::Write as _;

use anyhow::Result;

use super::cell::{LOSSES_PPM, RTTS_US, Set};
use super::rounds::{Results, Verdict};
use super::tool::Tool;
use crate::paths::picture::place;

const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 220.0;
const TOP: f64 = 90.0;
const LEFT: f64 = 64.0;
const APART: (f64, f64) = (56.0, 70.0);
/// The ends of the axes. A logarithmic axis has no 0: a round trip of 0 is drawn at its left end.
const RTT_MS: (f64, f64) = (2.0, 400.0);
const MBIT_S: (f64, f64) = (1.0, 1_500.0);
const COLOURS: [&str; 9] =
    ["#c0392b", "#e59a8f", "#2a6fb0", "#7fb2e5", "#3d8f57", "#8fce9f", "#c98a3a", "#7d5ba6", "#777"];

/// A panel's upper left corner.
type Corner = (f64, f64);

fn x(corner: Corner, rtt_us: u32) -> f64 {
    corner.0 + place(f64::from(rtt_us) / 1e3, RTT_MS) * WIDTH
}

fn y(corner: Corner, mbit_s: f64) -> f64 {
    corner.1 + (1.0 - place(mbit_s, MBIT_S)) * HEIGHT
}

/// Draws the picture.
///
/// # Errors
/// A line cannot be formatted.
pub fn svg(results: &Results, cap_s: f64) -> Result<String> {
    let has = |loss_ppm: &u32| results.outcomes.iter().any(|o| o.cell.loss_ppm == *loss_ppm && in_matrix(o.cell.set));
    let losses: Vec<u32> = LOSSES_PPM.into_iter().filter(has).collect();
    let mut tools: Vec<Tool> = results
        .outcomes
        .iter()
        .filter(|o| in_matrix(o.cell.set))
        .flat_map(|o| &o.tool_runs)
        .map(|tool_runs| tool_runs.tool)
        .collect();
    tools.sort_unstable();
    tools.dedup();
    let legend_rows = tools.len().div_ceil(4) as f64;
    let width = LEFT + 4.0 * (WIDTH + APART.0);
    let height = TOP + losses.len().max(1) as f64 * (HEIGHT + APART.1) + legend_rows * 24.0 + 10.0;
    let mut out = String::new();
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"12\">"
    )?;
    writeln!(out, "<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>")?;
    let title = "Longhaul and its peers over an emulated wide-area path";
    writeln!(out, "<text x=\"10\" y=\"22\" font-weight=\"bold\" font-size=\"14\">{title}</text>")?;
    let axes_mean =
        "Payload in Mbit/s, start to end, against the round trip in ms. Hollow: ended at the cap, by what had arrived";
    writeln!(out, "<text x=\"10\" y=\"42\">{axes_mean}</text>")?;
    for (row, loss_ppm) in losses.iter().enumerate() {
        for (column, set) in Set::MATRIX.into_iter().enumerate() {
            let corner = (LEFT + column as f64 * (WIDTH + APART.0), TOP + row as f64 * (HEIGHT + APART.1));
            axes(&mut out, corner, set, *loss_ppm)?;
            for tool in &tools {
                line(&mut out, corner, *tool, &points(results, *tool, set, *loss_ppm, cap_s))?;
            }
        }
    }
    legend(&mut out, &tools, TOP + losses.len().max(1) as f64 * (HEIGHT + APART.1))?;
    out.push_str("</svg>\n");
    Ok(out)
}

fn in_matrix(set: Set) -> bool {
    Set::MATRIX.contains(&set)
}

/// Round trip in µs, rate in Mbit/s, and whether all files arrived.
type Point = (u32, f64, bool);

fn points(results: &Results, tool: Tool, set: Set, loss_ppm: u32, cap_s: f64) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    for outcome in results.outcomes.iter().filter(|o| o.cell.set == set && o.cell.loss_ppm == loss_ppm) {
        let tool_runs = outcome.tool_runs.iter().find(|tool_runs| tool_runs.tool == tool);
        let mbit = outcome.bytes as f64 * 8e-6;
        match tool_runs.and_then(super::rounds::ToolRuns::verdict) {
            Some(Verdict::Done(spread)) => points.push((outcome.cell.rtt_us, mbit / spread.median, true)),
            Some(Verdict::Capped(Some(share))) => points.push((outcome.cell.rtt_us, mbit * share / cap_s, false)),
            Some(Verdict::Capped(None) | Verdict::Failed(_)) | None => {}
        }
    }
    points.sort_by_key(|(rtt_us, ..)| *rtt_us);
    points
}

fn axes(out: &mut String, corner: Corner, set: Set, loss_ppm: u32) -> Result<()> {
    let (left, top) = corner;
    let (right, bottom) = (left + WIDTH, top + HEIGHT);
    let loss = if loss_ppm == 0 { "no loss".into() } else { format!("loss {} %", f64::from(loss_ppm) / 1e4) };
    writeln!(out, "<text x=\"{left:.1}\" y=\"{:.1}\" font-weight=\"bold\">{}</text>", top - 20.0, set.title())?;
    writeln!(out, "<text x=\"{left:.1}\" y=\"{:.1}\">{loss}</text>", top - 6.0)?;
    for mbit_s in [1.0, 10.0, 100.0, 1_000.0] {
        let y = y(corner, mbit_s);
        writeln!(out, "<path d=\"M{left:.1} {y:.1}H{right:.1}\" stroke=\"#ddd\"/>")?;
        writeln!(out, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{mbit_s}</text>", left - 6.0, y + 4.0)?;
    }
    for rtt_us in RTTS_US {
        let x = x(corner, rtt_us);
        writeln!(out, "<path d=\"M{x:.1} {top:.1}V{bottom:.1}\" stroke=\"#eee\"/>")?;
        let ms = f64::from(rtt_us) / 1e3;
        writeln!(out, "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{ms}</text>", bottom + 16.0)?;
    }
    let frame = "fill=\"none\" stroke=\"#999\"";
    writeln!(out, "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" {frame}/>")?;
    Ok(())
}

/// The colour, dashes and width of a tool's line: dashed where BBR is the site's default, widest for Longhaul.
fn style(tool: Tool) -> (&'static str, &'static str, &'static str) {
    let colour = COLOURS[(tool.kind as usize).min(COLOURS.len() - 1)];
    let dashes = if tool.is_bbr { " stroke-dasharray=\"5 4\"" } else { "" };
    (colour, dashes, if tool.kind == super::tool::Kind::Longhaul { "3" } else { "1.5" })
}

fn line(out: &mut String, corner: Corner, tool: Tool, points: &[Point]) -> Result<()> {
    if points.is_empty() {
        return Ok(());
    }
    let (colour, dashes, width) = style(tool);
    let words: Vec<String> =
        points.iter().map(|(rtt, mbit_s, _)| format!("{:.1},{:.1}", x(corner, *rtt), y(corner, *mbit_s))).collect();
    let stroke = format!("stroke=\"{colour}\" stroke-width=\"{width}\"{dashes}");
    writeln!(out, "<polyline points=\"{}\" fill=\"none\" {stroke}/>", words.join(" "))?;
    for (rtt_us, mbit_s, is_whole) in points {
        let x = x(corner, *rtt_us);
        let y = y(corner, *mbit_s);
        let fill = if *is_whole { colour } else { "#fff" };
        writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{fill}\" stroke=\"{colour}\"/>")?;
    }
    Ok(())
}

fn legend(out: &mut String, tools: &[Tool], top: f64) -> Result<()> {
    for (at, tool) in tools.iter().enumerate() {
        let (x, y) = (LEFT + (at % 4) as f64 * (WIDTH + APART.0), top + (at / 4) as f64 * 24.0);
        let (colour, dashes, width) = style(*tool);
        writeln!(out, "<path d=\"M{x} {y}h36\" stroke=\"{colour}\" stroke-width=\"{width}\"{dashes}/>")?;
        writeln!(out, "<text x=\"{}\" y=\"{}\">{}</text>", x + 44.0, y + 4.0, tool.title())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::bed::RunEnd;
    use super::super::rounds::tests::{run_of, samples};
    use super::*;

    #[test]
    fn the_picture_has_every_panel_and_line() {
        let mut results = samples();
        results.outcomes[0].tool_runs[2].runs = vec![run_of(RunEnd::Capped(Some(0.5)), 60.0)];
        let picture = svg(&results, 60.0).unwrap();
        assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n") && !picture.contains("NaN"));
        for title in Set::MATRIX.map(Set::title) {
            assert_eq!(picture.matches(title).count(), 3, "{title}");
        }
        // Nine tools for large files, six for others, in three rows; tools with BBR run at one loss only.
        assert_eq!(picture.matches("<polyline").count(), 3 * (9 + 3 * 6) + (3 + 3 * 2));
        assert_eq!(picture.matches("fill=\"#fff\" stroke").count(), 1, "one was capped");
        assert!(picture.contains("Longhaul") && picture.contains("emulated"));
        assert!(svg(&Results::default(), 60.0).unwrap().ends_with("</svg>\n"), "nothing measured yet");
    }

    #[test]
    fn a_round_trip_of_zero_is_drawn_at_the_left_end() {
        assert_eq!(x((10.0, 0.0), 0), 10.0);
        assert!(x((10.0, 0.0), 303_000) < 10.0 + WIDTH);
    }
}
