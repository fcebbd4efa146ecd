//! Bars of the median rates as SVG: one group per cell, all to one scale.

use std::fmt::Write as _;

use anyhow::Result;

use super::judge::spread_of;
use super::{Row, ServerKind};

const ROW: usize = 20;
const LEFT: f64 = 110.0;
const WIDTH: f64 = 560.0;

/// Draws the picture. With `stand_in`, the bars of Longhaul are named as those of a second xrootd.
///
/// # Errors
/// A line cannot be formatted.
pub fn svg(rows: &[Row], stand_in: bool) -> Result<String> {
    let name = |kind: ServerKind| if stand_in && kind == ServerKind::Ours { "stand-in" } else { kind.name() };
    let rate = |row: &Row, kind| spread_of(row, kind, |s| s.bytes_s).map_or(0.0, |spread| spread.median / 1e9);
    let all = rows.iter().flat_map(|row| ServerKind::ALL.map(|kind| rate(row, kind)));
    let most = all.fold(f64::MIN_POSITIVE, f64::max);
    let mut body = String::new();
    let mut y = 50;
    for row in rows {
        writeln!(body, "<text x=\"10\" y=\"{y}\" font-weight=\"bold\">{}</text>", row.title)?;
        y += 6;
        for kind in ServerKind::ALL {
            let rate = rate(row, kind);
            let text = y + 14;
            let width = rate / most * WIDTH;
            let fill = if kind == ServerKind::Ours { "#2a6fb0" } else { "#c98a3a" };
            writeln!(body, "<text x=\"{}\" y=\"{text}\" text-anchor=\"end\">{}</text>", LEFT - 8.0, name(kind))?;
            writeln!(body, "<rect x=\"{LEFT}\" y=\"{}\" width=\"{width:.1}\" height=\"16\" fill=\"{fill}\"/>", y + 1)?;
            writeln!(body, "<text x=\"{:.1}\" y=\"{text}\">{rate:.2} GB/s</text>", LEFT + width + 6.0)?;
            y += ROW;
        }
        y += 24;
    }
    let font = "font-family=\"sans-serif\" font-size=\"13\"";
    let mut out = String::new();
    writeln!(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"780\" height=\"{y}\" {font}>")?;
    writeln!(out, "<rect width=\"780\" height=\"{y}\" fill=\"#fff\"/>")?;
    out.push_str("<text x=\"10\" y=\"22\">Median rate over loopback; longer is faster.</text>\n");
    out.push_str(&body);
    out.push_str("</svg>\n");
    Ok(out)
}
