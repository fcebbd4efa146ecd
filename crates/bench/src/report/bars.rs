//! Bars of the median speeds as SVG: one group per scenario, each to its own scale.

use std::fmt::Write as _;

use anyhow::Result;

use super::{Outcome, speed};
use crate::contestant::Role;

const ROW: usize = 22;
const LEFT: f64 = 170.0;
const WIDTH: f64 = 540.0;

fn colour(role: Role) -> &'static str {
    match role {
        Role::Ours => "#2a6fb0",
        Role::Peer => "#c98a3a",
        Role::EncryptedPeer => "#8a6bb0",
        Role::Reference => "#aaa",
    }
}

/// Draws the picture.
///
/// # Errors
/// A line cannot be formatted.
pub fn svg(outcomes: &[Outcome]) -> Result<String> {
    let mut body = String::new();
    let mut y = 50;
    for (scenario, rows) in outcomes {
        let bars: Vec<_> =
            rows.iter().filter_map(|row| Some((row, speed(scenario, &row.figures(scenario)?)))).collect();
        let most = bars.iter().map(|(_, (speed, _))| *speed).fold(f64::MIN_POSITIVE, f64::max);
        writeln!(body, "<text x=\"10\" y=\"{y}\" font-weight=\"bold\">{}</text>", scenario.title)?;
        y += 8;
        for (row, (speed, unit)) in bars {
            let width = speed / most * WIDTH;
            let text = y + 15;
            let number = if speed < 100.0 { format!("{speed:.2}") } else { format!("{speed:.0}") };
            writeln!(body, "<text x=\"{}\" y=\"{text}\" text-anchor=\"end\">{}</text>", LEFT - 8.0, row.name)?;
            let fill = colour(row.role);
            writeln!(body, "<rect x=\"{LEFT}\" y=\"{}\" width=\"{width:.1}\" height=\"18\" fill=\"{fill}\"/>", y + 1)?;
            writeln!(body, "<text x=\"{:.1}\" y=\"{text}\">{number} {unit}</text>", LEFT + width + 6.0)?;
            y += ROW;
        }
        y += 30;
    }
    let mut out = String::new();
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"840\" height=\"{y}\" font-family=\"sans-serif\" font-size=\"13\">"
    )?;
    writeln!(out, "<rect width=\"840\" height=\"{y}\" fill=\"#fff\"/>")?;
    out.push_str("<text x=\"10\" y=\"22\">Median speed over loopback; longer is faster. ");
    out.push_str("Blue: Longhaul; brown: peers in clear; violet: peers that encrypt; grey: references.</text>\n");
    out.push_str(&body);
    out.push_str("</svg>\n");
    Ok(out)
}
