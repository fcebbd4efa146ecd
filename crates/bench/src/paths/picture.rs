//! The grid as SVG: rate against RTT, both logarithmic, one panel per loss.

use std::fmt::Write as _;

use anyhow::Result;

use super::grid::{CONGESTIONS, Cell, CellResult, LOSSES, MTUS, RTTS};

const WIDTH: f64 = 440.0;
const HEIGHT: f64 = 360.0;
const TOP: f64 = 70.0;
const LEFT: f64 = 70.0;
const APART: f64 = 70.0;
/// The axes' ends.
const RTT_MS: (f64, f64) = (0.8, 400.0);
const MBIT_S: (f64, f64) = (1.0, 1_500.0);
const COLOURS: [&str; 3] = ["#c98a3a", "#2a6fb0", "#3d8f57"];
const GREY: &str = "#888";

/// The position of a value between the ends of a logarithmic axis, from 0 to 1.
pub fn place(value: f64, (from, to): (f64, f64)) -> f64 {
    (value.clamp(from, to) / from).ln() / (to / from).ln()
}

fn x(panel: usize, rtt_ms: f64) -> f64 {
    LEFT + panel as f64 * (WIDTH + APART) + place(rtt_ms, RTT_MS) * WIDTH
}

fn y(mbit_s: f64) -> f64 {
    TOP + (1.0 - place(mbit_s, MBIT_S)) * HEIGHT
}

/// The width of a line: thick for large packets.
fn stroke(mtu: usize) -> &'static str {
    if MTUS[mtu] > 1500 { "2.6" } else { "1.3" }
}

/// Draws the picture.
///
/// # Errors
/// A line cannot be formatted.
pub fn svg(reached: &[CellResult]) -> Result<String> {
    let width = LEFT + LOSSES.len() as f64 * (WIDTH + APART) - APART + 30.0;
    let height = TOP + HEIGHT + 110.0;
    let mut out = String::new();
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"13\">"
    )?;
    writeln!(out, "<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>")?;
    writeln!(
        out,
        "<text x=\"10\" y=\"22\" font-weight=\"bold\">One TCP stream over an emulated path of 1 Gbit/s</text>"
    )?;
    writeln!(out, "<text x=\"10\" y=\"42\">Goodput in Mbit/s against the round trip in ms; back end tun</text>")?;
    for (panel, (percent, _)) in LOSSES.iter().enumerate() {
        axes(&mut out, panel, *percent)?;
        for (mtu, _) in MTUS.iter().enumerate() {
            let law = RTTS.iter().enumerate();
            let law = law.map(|(rtt, ms)| (*ms, Cell { loss: panel, mtu, congestion: 0, rtt }.mathis()));
            line(&mut out, panel, GREY, mtu, true, &law.collect::<Vec<_>>())?;
            for (congestion, _) in CONGESTIONS.iter().enumerate() {
                let points: Vec<(u32, f64)> = (0..RTTS.len())
                    .filter_map(|rtt| {
                        let cell = Cell { loss: panel, mtu, congestion, rtt };
                        let found = reached.iter().find(|reached| reached.cell == cell)?;
                        Some((RTTS[rtt], found.mbit_s))
                    })
                    .collect();
                line(&mut out, panel, COLOURS[congestion], mtu, false, &points)?;
            }
        }
    }
    legend(&mut out)?;
    out.push_str("</svg>\n");
    Ok(out)
}

fn axes(out: &mut String, panel: usize, percent: f64) -> Result<()> {
    let (left, right, bottom) = (x(panel, RTT_MS.0), x(panel, RTT_MS.1), y(MBIT_S.0));
    writeln!(out, "<text x=\"{left:.1}\" y=\"{}\" font-weight=\"bold\">Loss {percent} %</text>", TOP - 8.0)?;
    for mbit_s in [1.0, 10.0, 100.0, 1_000.0] {
        let y = y(mbit_s);
        writeln!(out, "<path d=\"M{left:.1} {y:.1}H{right:.1}\" stroke=\"#ddd\"/>")?;
        writeln!(out, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{mbit_s}</text>", left - 6.0, y + 4.0)?;
    }
    for ms in RTTS {
        let x = x(panel, ms.into());
        writeln!(out, "<path d=\"M{x:.1} {TOP}V{bottom:.1}\" stroke=\"#eee\"/>")?;
        writeln!(out, "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{ms}</text>", bottom + 18.0)?;
    }
    writeln!(
        out,
        "<rect x=\"{left:.1}\" y=\"{TOP}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"none\" stroke=\"#999\"/>"
    )?;
    Ok(())
}

fn line(out: &mut String, panel: usize, colour: &str, mtu: usize, dashed: bool, points: &[(u32, f64)]) -> Result<()> {
    let places: Vec<(f64, f64)> = points.iter().map(|(ms, mbit_s)| (x(panel, (*ms).into()), y(*mbit_s))).collect();
    let words: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let dashes = if dashed { " stroke-dasharray=\"5 4\"" } else { "" };
    writeln!(
        out,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{}\"{dashes}/>",
        words.join(" "),
        stroke(mtu)
    )?;
    // Dots mark measurements; a law has none.
    for (x, y) in places.iter().filter(|_| !dashed) {
        let (fill, radius) = if MTUS[mtu] > 1500 { (colour, 3.5) } else { ("#fff", 3.0) };
        writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{fill}\" stroke=\"{colour}\"/>")?;
    }
    Ok(())
}

/// Draws the legend below the panels, one row per packet size.
fn legend(out: &mut String) -> Result<()> {
    for (row, mtu) in MTUS.iter().enumerate() {
        let y = TOP + HEIGHT + 48.0 + row as f64 * 26.0;
        let names = CONGESTIONS.iter().zip(COLOURS).chain([(&"Mathis", GREY)]);
        for (column, (name, colour)) in names.enumerate() {
            let x = LEFT + column as f64 * 190.0;
            let dashed = colour == GREY;
            let dashes = if dashed { " stroke-dasharray=\"5 4\"" } else { "" };
            writeln!(out, "<path d=\"M{x} {y}h36\" stroke=\"{colour}\" stroke-width=\"{}\"{dashes}/>", stroke(row))?;
            if !dashed {
                let (fill, radius) = if *mtu > 1500 { (colour, 3.5) } else { ("#fff", 3.0) };
                let x = x + 18.0;
                writeln!(out, "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" fill=\"{fill}\" stroke=\"{colour}\"/>")?;
            }
            writeln!(out, "<text x=\"{}\" y=\"{}\">{name}, MTU {mtu}</text>", x + 44.0, y + 4.0)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::grid::tests::samples;
    use super::*;

    #[test]
    fn axes_are_logarithmic() {
        let decade = y(10.0) - y(100.0);
        assert!((y(100.0) - y(1_000.0) - decade).abs() < 1e-9);
        assert_eq!([x(0, 0.1), x(0, 1e9)], [LEFT, LEFT + WIDTH], "a value beyond an end is drawn at the end");
    }

    #[test]
    fn the_picture_has_every_line_and_dot() {
        let samples = samples();
        let picture = svg(&samples).unwrap();
        assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n") && !picture.contains("NaN"));
        assert_eq!(picture.matches("<polyline").count(), 2 * 2 * 4);
        assert_eq!(picture.matches("<circle").count(), samples.len() + 6);
        assert_eq!(picture.matches("dasharray").count(), 4 + 2);
        for wanted in ["reno, MTU 1500", "bbr, MTU 9000", "Mathis, MTU 9000", "Loss 0.0046 %", "emulated"] {
            assert!(picture.contains(wanted), "{wanted}");
        }
        assert!(svg(&[]).unwrap().contains("Mathis"), "nothing measured yet");
    }
}
