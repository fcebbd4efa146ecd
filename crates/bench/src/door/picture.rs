//! Bars of the median rates, as SVG written by hand: one group per cell, all to one scale.

use std::fmt::Write as _;

use anyhow::Result;

use super::judge::of;
use super::{Row, ServerKind};

const ROW: usize = 20;
const LEFT: f64 = 110.0;
const WIDTH: f64 = 560.0;

/// The picture; with a stand-in, of two xrootds.
pub fn svg(rows: &[Row], stand_in: bool) -> Result<String> {
    let name = |who: ServerKind| if stand_in && who == ServerKind::Ours { "stand-in" } else { who.name() };
    let rate = |row: &Row, who| of(row, who, |s| s.bytes_s).map_or(0.0, |spread| spread.median / 1e9);
    let all = rows.iter().flat_map(|row| ServerKind::ALL.map(|who| rate(row, who)));
    let most = all.fold(f64::MIN_POSITIVE, f64::max);
    let (mut body, mut y) = (String::new(), 50);
    for row in rows {
        writeln!(body, "<text x=\"10\" y=\"{y}\" font-weight=\"bold\">{}</text>", row.title)?;
        y += 6;
        for who in ServerKind::ALL {
            let (rate, text) = (rate(row, who), y + 14);
            let (width, fill) = (rate / most * WIDTH, if who == ServerKind::Ours { "#2a6fb0" } else { "#c98a3a" });
            writeln!(body, "<text x=\"{}\" y=\"{text}\" text-anchor=\"end\">{}</text>", LEFT - 8.0, name(who))?;
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
