//! CPU seconds per GB against the number of streams, as SVG.

use std::fmt::Write as _;

use anyhow::Result;

use super::report::cpu_s_per_gb;
use super::transfers::{STREAMS, ScaleRow};
use crate::paths::picture::place;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 50.0;
/// The ends of the axis of streams.
const ENDS: (f64, f64) = (1.0, 256.0);
/// The lines: whether payload is in clear, colour, name.
const LINES: [(bool, &str, &str); 2] = [(true, "#2a6fb0", "in clear"), (false, "#c98a3a", "sealed")];

/// Draws the picture for jobs of these bytes.
///
/// # Errors
/// A line cannot be formatted.
pub fn svg(rows: &[ScaleRow], bytes: u64) -> Result<String> {
    let points = |plain: bool| -> Vec<(u32, f64)> {
        let of = rows.iter().filter(|row| row.setting.plain == plain);
        of.filter_map(|row| Some((row.setting.streams?, cpu_s_per_gb(row, bytes)?.median))).collect()
    };
    let most = LINES.iter().flat_map(|(plain, ..)| points(*plain)).map(|(_, cost)| cost).fold(0.1, f64::max) * 1.1;
    let x = |streams: u32| LEFT + place(streams.into(), ENDS) * WIDTH;
    let y = |cost: f64| TOP + (1.0 - cost / most) * HEIGHT;
    let (width, height, bottom) = (LEFT + WIDTH + 40.0, TOP + HEIGHT + 70.0, TOP + HEIGHT);
    let mut out = String::new();
    let font = "font-family=\"sans-serif\" font-size=\"13\"";
    writeln!(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" {font}>")?;
    writeln!(out, "<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>")?;
    writeln!(
        out,
        "<text x=\"10\" y=\"22\" font-weight=\"bold\">CPU seconds per GB, both ends, by streams of one job</text>"
    )?;
    for step in 0..=4 {
        let cost = most * f64::from(step) / 4.0;
        writeln!(out, "<path d=\"M{LEFT} {:.1}h{WIDTH}\" stroke=\"#ddd\"/>", y(cost))?;
        writeln!(out, "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{cost:.2}</text>", LEFT - 6.0, y(cost) + 4.0)?;
    }
    for streams in STREAMS {
        writeln!(out, "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{streams}</text>", x(streams), bottom + 18.0)?;
    }
    for (row, (plain, colour, name)) in LINES.into_iter().enumerate() {
        let all = points(plain);
        let words: Vec<String> = all.iter().map(|(at, cost)| format!("{:.1},{:.1}", x(*at), y(*cost))).collect();
        writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            words.join(" ")
        )?;
        for (at, cost) in all {
            writeln!(out, "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/>", x(at), y(cost))?;
        }
        let left = LEFT + row as f64 * 120.0;
        writeln!(out, "<text x=\"{left}\" y=\"{}\" fill=\"{colour}\">{name}</text>", bottom + 44.0)?;
    }
    out.push_str("</svg>\n");
    Ok(out)
}
