//! A chart as SVG with two axes. It has a title and a description for screen readers. Colours come from the page's style, by number,
//! and dashes distinguish lines in grey.
//!
//! Does not know: the meaning of the data. Values that are not numbers are drawn at 0.

use std::fmt::Write as _;

use super::brief;
use super::scale::Scale;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 230.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 36.0;

/// A value over an interval: between `low` and `high` for an area, `high` for a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The start of the interval.
    pub from: f64,
    /// The end of the interval.
    pub to: f64,
    /// The lower edge.
    pub low: f64,
    /// The upper edge.
    pub high: f64,
}

/// A coordinate, to a tenth.
pub(super) fn n(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// A figure around a drawing: with a title for sight, a description for screen readers, and its numbers.
pub(super) struct Frame<'a> {
    pub id: &'a str,
    pub title: &'a str,
    pub about: &'a str,
    pub height: f64,
}

impl Frame<'_> {
    pub fn figure(&self, drawing: &str, below: &str) -> String {
        let Frame { id, title, about, height } = *self;
        let title = brief(title);
        let about = brief(about);
        format!(
            "<figure id=\"{id}\"><figcaption><b>{title}</b> {about}</figcaption><div class=\"wide\">\
             <svg class=\"chart\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
             aria-labelledby=\"{id}-t {id}-d\"><title id=\"{id}-t\">{title}</title><desc id=\"{id}-d\">{about}</desc>\
             {drawing}</svg></div>{below}</figure>\n"
        )
    }
}

/// The foot of a drawing: the numbers of the x axis, with lines up to the top.
pub(super) fn foot(out: &mut String, x: &Scale, left: f64, top: f64, bottom: f64) {
    let mut lines = String::new();
    let mut labels = String::new();
    for (value, label) in x.ticks() {
        let at = n(left + x.place(value) * (WIDTH - RIGHT - left));
        let _ = write!(lines, "M{at} {}V{}", n(top), n(bottom));
        let _ = write!(labels, "<text x=\"{at}\" y=\"{}\" text-anchor=\"middle\">{label}</text>", n(bottom + 14.0));
    }
    let _ = write!(out, "<path class=\"grid\" d=\"{lines}\"/>{labels}");
    let end = n(WIDTH - RIGHT);
    let below = n(bottom + 29.0);
    let _ = write!(out, "<text x=\"{end}\" y=\"{below}\" text-anchor=\"end\">{}</text>", brief(x.name()));
}

/// The position of an x value between a left edge and the right one.
pub(super) fn across(x: &Scale, value: f64, left: f64) -> f64 {
    left + x.place(value) * (WIDTH - RIGHT - left)
}

/// A chart that is being drawn.
pub struct Plot<'a> {
    frame: Frame<'a>,
    x: Scale,
    y: Scale,
    drawing: String,
    key: String,
}

impl<'a> Plot<'a> {
    /// An empty chart. The id is unique in the page.
    pub fn new(id: &'a str, title: &'a str, about: &'a str, x: Scale, y: Scale) -> Plot<'a> {
        let frame = Frame { id, title, about, height: HEIGHT };
        let mut lines = String::new();
        let mut drawing = String::new();
        for (value, label) in y.ticks() {
            let at = HEIGHT - BOTTOM - y.place(value) * (HEIGHT - BOTTOM - TOP);
            let _ = write!(lines, "M{} {}H{}", n(LEFT), n(at), n(WIDTH - RIGHT));
            let _ = write!(
                drawing,
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{label}</text>",
                n(LEFT - 6.0),
                n(at + 4.0)
            );
        }
        let _ = write!(drawing, "<path class=\"grid\" d=\"{lines}\"/>");
        let _ = write!(drawing, "<text x=\"{}\" y=\"12\">{}</text>", n(4.0), brief(y.name()));
        foot(&mut drawing, &x, LEFT, TOP, HEIGHT - BOTTOM);
        Plot { frame, x, y, drawing, key: String::new() }
    }

    fn x(&self, value: f64) -> String {
        n(across(&self.x, value, LEFT))
    }

    fn y(&self, value: f64) -> String {
        n(HEIGHT - BOTTOM - self.y.place(value) * (HEIGHT - BOTTOM - TOP))
    }

    /// Fills the area between the edges; `class` is one of the page's style.
    pub fn area(&mut self, class: &str, steps: &[Step]) {
        let mut path = String::new();
        for run in steps.chunk_by(is_adjacent) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            let _ = write!(path, "M{} {}", self.x(first.from), self.y(first.low));
            for step in run {
                let _ = write!(path, "V{}H{}", self.y(step.high), self.x(step.to));
            }
            let _ = write!(path, "V{}", self.y(last.low));
            for pair in run.windows(2).rev() {
                let _ = write!(path, "H{}V{}", self.x(pair[1].from), self.y(pair[0].low));
            }
            path.push('Z');
        }
        let _ = write!(self.drawing, "<path class=\"{class}\" d=\"{path}\"/>");
    }

    /// A line of the style of this number along the upper edges, with gaps where the value is unknown.
    pub fn line(&mut self, style: usize, steps: &[Step]) {
        let mut path = String::new();
        for run in steps.chunk_by(is_adjacent) {
            for (at, step) in run.iter().enumerate() {
                let _ = match at {
                    0 => write!(path, "M{} {}", self.x(step.from), self.y(step.high)),
                    _ => write!(path, "V{}", self.y(step.high)),
                };
                let _ = write!(path, "H{}", self.x(step.to));
            }
        }
        let _ = write!(self.drawing, "<path class=\"l{}\" d=\"{path}\"/>", style % STYLES);
    }

    /// A line from point to point.
    pub fn curve(&mut self, style: usize, points: &[(f64, f64)]) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{},{}", self.x(*x), self.y(*y))).collect();
        let _ = write!(self.drawing, "<polyline class=\"l{}\" points=\"{}\"/>", style % STYLES, points.join(" "));
    }

    /// Adds a line to the key.
    pub fn key_line(&mut self, style: usize, label: &str) {
        let style = style % STYLES;
        let _ = write!(self.key, "<li>{}<path class=\"l{style}\" d=\"M0 5H24\"/></svg> {}</li>", SWATCH, brief(label));
    }

    /// Adds an area to the key.
    pub fn key_area(&mut self, class: &str, label: &str) {
        let _ =
            write!(self.key, "<li>{}<path class=\"{class}\" d=\"M0 0H24V10H0Z\"/></svg> {}</li>", SWATCH, brief(label));
    }

    /// The whole figure; `numbers` is markup that stands below it.
    pub fn figure(mut self, numbers: &str) -> String {
        let left = n(LEFT);
        let foot = n(HEIGHT - BOTTOM);
        let _ = write!(self.drawing, "<path class=\"axis\" d=\"M{left} {}V{foot}H{}\"/>", n(TOP), n(WIDTH - RIGHT));
        let key = if self.key.is_empty() { String::new() } else { format!("<ul class=\"key\">{}</ul>", self.key) };
        self.frame.figure(&self.drawing, &format!("{key}{numbers}"))
    }
}

/// Styles of lines and areas, `l0` to `l7`.
pub const STYLES: usize = 8;

const SWATCH: &str = "<svg viewBox=\"0 0 24 10\" aria-hidden=\"true\">";

/// Whether one step begins where the other ends.
fn is_adjacent(before: &Step, after: &Step) -> bool {
    after.from <= before.to * (1.0 + 1e-9)
}

#[cfg(test)]
mod tests {
    use super::super::tests::well_formed;
    use super::*;

    const A: Step = Step { from: 0.0, to: 5.0, low: 0.0, high: 10.0 };
    const B: Step = Step { from: 5.0, to: 10.0, low: 5.0, high: 0.0 };

    fn plot() -> Plot<'static> {
        Plot::new("p", "Rate <over> time", "All & sundry", Scale::seconds(10.0), Scale::plain(10.0, "Mbit/s"))
    }

    #[test]
    fn steps_are_drawn_at_their_positions() {
        let mut plot = plot();
        plot.line(9, &[A, B]);
        plot.area("f0", &[A, B]);
        plot.key_line(1, "<b>");
        let figure = plot.figure("");
        // From 56 to 630 and from 194 up to 22.
        assert!(figure.contains("<path class=\"l1\" d=\"M56 22H343V194H630\"/>"), "{figure}");
        assert!(figure.contains("<path class=\"f0\" d=\"M56 194V22H343V194H630V108H343V194Z\"/>"), "{figure}");
        assert!(
            figure.contains("aria-labelledby=\"p-t p-d\"")
                && figure.contains("<title id=\"p-t\">Rate &lt;over&gt; time")
        );
        well_formed(&figure);
    }

    #[test]
    fn an_unknown_value_is_a_gap() {
        let mut plot = plot();
        plot.line(0, &[A, Step { from: 7.5, ..B }]);
        plot.area("f1", &[A, Step { from: 7.5, ..B }]);
        plot.line(1, &[]);
        plot.curve(0, &[(0.0, f64::NAN), (20.0, -3.0)]);
        let figure = plot.figure("");
        assert!(figure.contains("d=\"M56 22H343M486.5 194H630\""), "{figure}");
        assert_eq!(figure.matches('Z').count(), 2, "{figure}");
        assert!(figure.contains("points=\"56,194 630,194\""), "{figure}");
        well_formed(&figure);
    }
}
