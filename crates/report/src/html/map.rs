//! A map of sites and the links between them, as SVG: meridians and parallels, great circles, and a state of each link that dashes, strokes
//! and signs show as well as colours.
//!
//! Does not know: what loads a link, or why it fails. The tables of a page have the same data.

use std::f64::consts::PI;
use std::fmt::Write as _;

use super::brief;
use super::plot::{Frame, n};

/// Degrees between two meridians or parallels: at least this many of them cross the view.
const GRID_STEPS: [f64; 4] = [30.0, 15.0, 5.0, 1.0];
const GRID_LINES_MIN: f64 = 3.0;
const WIDTH: f64 = 640.0;
/// The height of a map, as a part of its width.
const HEIGHTS: std::ops::RangeInclusive<f64> = 0.4..=0.62;
/// Free space around the sites, degrees.
const MARGIN: f64 = 9.0;
/// The narrowest view, degrees.
const VIEW_MIN: f64 = 12.0;
/// Segments of a great circle.
const STEPS: usize = 32;
/// The width of an idle link's stroke, and how much wider that of a full link is.
const STROKE: f64 = 1.2;
const STROKE_FULL: f64 = 4.5;
/// About the size of a letter of a label.
const LETTER_WIDTH: f64 = 6.5;
const LETTER_HEIGHT: f64 = 11.0;
/// A link whose ends are closer, in pixels, has no room for its load beside it; the title and the tables have it.
const LABELLED_MIN: f64 = 30.0;

/// A site.
#[derive(Clone, Debug, PartialEq)]
pub struct MapSite {
    /// Its name.
    pub name: String,
    /// Degrees north and degrees east; a site without a position is named below the map.
    pub position: Option<[f64; 2]>,
}

/// The state of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkState {
    /// It carries nothing.
    Idle,
    /// It carries something.
    Carries,
    /// It is to carry more than it may.
    Overloaded,
    /// It is down.
    Failed,
}

/// A link between two sites.
#[derive(Clone, Debug, PartialEq)]
pub struct MapLink {
    /// Its name.
    pub name: String,
    /// Its ends, by their numbers in the list of sites.
    pub ends: [usize; 2],
    /// Its load in the direction that is fuller, as a part of its capacity; none without a capacity.
    pub part: Option<f64>,
    /// Its state.
    pub state: LinkState,
    /// Its failure cuts flows off or overloads other links.
    pub critical: bool,
}

/// The part of the world that is drawn.
struct View {
    west: f64,
    north: f64,
    /// Pixels of a degree.
    scale: f64,
    height: f64,
}

/// A map. The id is unique in the page. Nothing if fewer than two sites have a position.
pub fn map(id: &str, title: &str, about: &str, sites: &[MapSite], links: &[MapLink]) -> String {
    let placed: Vec<(&MapSite, [f64; 2])> = sites.iter().filter_map(|site| Some((site, site.position?))).collect();
    if placed.len() < 2 {
        return String::new();
    }
    let between = |link: &MapLink| Some([sites[link.ends[0]].position?, sites[link.ends[1]].position?]);
    let mut lines: Vec<(&MapLink, Vec<[f64; 2]>)> =
        links.iter().filter_map(|link| between(link).map(|[a, b]| (link, great_circle(a, b)))).collect();
    // What is wrong is drawn last, above all others.
    lines.sort_by_key(|(link, _)| link.state);
    let points = lines.iter().flat_map(|(_, points)| points).chain(placed.iter().map(|(_, position)| position));
    let view = View::of(points);
    let mut drawing = view.grid();
    for (link, points) in &lines {
        draw_link(&mut drawing, &view, link, points);
    }
    let mut labels = Vec::new();
    for (site, position) in placed {
        draw_site(&mut drawing, &mut labels, site, view.place(position));
    }
    Frame { id, title, about, height: view.height }.figure(&drawing, &(key(links) + &unplaced(sites)))
}

impl View {
    /// The view that holds all points.
    fn of<'p>(points: impl Iterator<Item = &'p [f64; 2]>) -> View {
        let all = [f64::INFINITY, f64::NEG_INFINITY, f64::INFINITY, f64::NEG_INFINITY];
        let [south, north, west, east] = points.fold(all, |[south, north, west, east], [lat, lon]| {
            [south.min(*lat), north.max(*lat), west.min(*lon), east.max(*lon)]
        });
        let wide = (east - west + 2.0 * MARGIN).clamp(VIEW_MIN, 360.0);
        let high = (north - south + 2.0 * MARGIN).clamp(wide * HEIGHTS.start(), 180.0);
        // Where the sites lie below each other, the view is widened instead.
        let wide = wide.max(high / HEIGHTS.end());
        View {
            west: (west + east - wide) / 2.0,
            north: (south + north + high) / 2.0,
            scale: WIDTH / wide,
            height: (high * WIDTH / wide).round(),
        }
    }

    fn place(&self, [north, east]: [f64; 2]) -> [f64; 2] {
        [(east - self.west) * self.scale, (self.north - north) * self.scale]
    }

    /// Meridians and parallels with their degrees.
    fn grid(&self) -> String {
        let wide = WIDTH / self.scale;
        let high = self.height / self.scale;
        let step = GRID_STEPS.into_iter().find(|step| wide / step >= GRID_LINES_MIN).unwrap_or(1.0);
        let mut drawing = String::new();
        let mut line = |from: [f64; 2], to: [f64; 2], label: [f64; 2], degrees: String| {
            let _ = write!(
                drawing,
                "<path class=\"grid\" d=\"M{} {}L{} {}\"/><text class=\"tick\" x=\"{}\" y=\"{}\">{degrees}</text>",
                n(from[0]),
                n(from[1]),
                n(to[0]),
                n(to[1]),
                n(label[0]),
                n(label[1])
            );
        };
        for number in (self.west / step).ceil() as i32..=((self.west + wide) / step).floor() as i32 {
            let east = f64::from(number) * step;
            let [x, _] = self.place([0.0, east]);
            let of_globe = (east + 180.0).rem_euclid(360.0) - 180.0;
            line([x, 0.0], [x, self.height], [x + 2.0, self.height - 3.0], degrees(of_globe, "E", "W"));
        }
        for number in ((self.north - high) / step).ceil() as i32..=(self.north / step).floor() as i32 {
            let north = f64::from(number) * step;
            let [_, y] = self.place([north, 0.0]);
            line([0.0, y], [WIDTH, y], [2.0, y - 2.0], degrees(north, "N", "S"));
        }
        drawing
    }

    /// Points as a path; at the date line it continues at the other edge.
    fn path(&self, points: &[[f64; 2]]) -> String {
        let mut path = String::new();
        let mut before: Option<f64> = None;
        for point in points {
            let crosses = before.is_some_and(|before| (before - point[1]).abs() > 180.0);
            let [x, y] = self.place(*point);
            let _ = write!(path, "{}{} {}", if before.is_none() || crosses { 'M' } else { 'L' }, n(x), n(y));
            before = Some(point[1]);
        }
        path
    }
}

/// Degrees with the letter of their side.
fn degrees(value: f64, positive: &str, negative: &str) -> String {
    match value {
        0.0 => "0°".to_owned(),
        value if value > 0.0 => format!("{value}° {positive}"),
        value => format!("{}° {negative}", -value),
    }
}

/// Points of the shortest way over the Earth, degrees north and east.
fn great_circle(from: [f64; 2], to: [f64; 2]) -> Vec<[f64; 2]> {
    let vector = |[north, east]: [f64; 2]| {
        let (north, east) = (north * PI / 180.0, east * PI / 180.0);
        [north.cos() * east.cos(), north.cos() * east.sin(), north.sin()]
    };
    let (a, b) = (vector(from), vector(to));
    let angle = a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>().clamp(-1.0, 1.0).acos();
    if angle.sin().abs() < 1e-9 {
        return vec![from, to];
    }
    let point = |step: usize| {
        let part = step as f64 / STEPS as f64;
        let (f, g) = (((1.0 - part) * angle).sin() / angle.sin(), (part * angle).sin() / angle.sin());
        let [x, y, z] = [0, 1, 2].map(|axis| f * a[axis] + g * b[axis]);
        [z.clamp(-1.0, 1.0).asin() * 180.0 / PI, y.atan2(x) * 180.0 / PI]
    };
    (0..=STEPS).map(point).collect()
}

/// Draws a site. Its name is at the first of four corners where it overlaps no earlier name.
fn draw_site(out: &mut String, labels: &mut Vec<[f64; 4]>, site: &MapSite, [x, y]: [f64; 2]) {
    let wide = site.name.chars().count() as f64 * LETTER_WIDTH;
    // The left edge and the base line.
    let corners = [[x + 6.0, y - 5.0], [x - 6.0 - wide, y - 5.0], [x + 6.0, y + 14.0], [x - 6.0 - wide, y + 14.0]];
    let area = |[left, base]: [f64; 2]| [left, left + wide, base - LETTER_HEIGHT, base];
    let is_free = |corner: &&[f64; 2]| {
        let [left, right, top, base] = area(**corner);
        let meets = |other: &[f64; 4]| left < other[1] && other[0] < right && top < other[3] && other[2] < base;
        left >= 0.0 && right <= WIDTH && !labels.iter().any(meets)
    };
    let corner = *corners.iter().find(is_free).unwrap_or(&corners[0]);
    labels.push(area(corner));
    let [left, base] = corner.map(n);
    let (x, y, name) = (n(x), n(y), brief(&site.name));
    let _ = write!(
        out,
        "<circle class=\"f7\" cx=\"{x}\" cy=\"{y}\" r=\"3.5\"/><text class=\"tag\" x=\"{left}\" y=\"{base}\">{name}</text>"
    );
}

/// Draws a link. The fuller it is, the wider its stroke; overloaded links have two strokes, failed ones long dashes and a cross, idle
/// ones dots.
fn draw_link(out: &mut String, view: &View, link: &MapLink, points: &[[f64; 2]]) {
    let path = view.path(points);
    let part = link.part.unwrap_or(0.0).clamp(0.0, 1.0);
    let width = STROKE + STROKE_FULL * part;
    let percent = link.part.map_or(String::new(), |part| format!("{:.0} %", part * 100.0));
    let (class, words, label) = match link.state {
        LinkState::Idle => ("idle", "carries nothing".to_owned(), String::new()),
        LinkState::Carries => ("carries", format!("carries {percent}"), percent),
        LinkState::Overloaded => ("over", format!("is overloaded: {percent}"), format!("! {percent}")),
        LinkState::Failed => ("failed", "is down".to_owned(), "× down".to_owned()),
    };
    let critical = if link.critical { "; its failure cuts or crowds flows" } else { "" };
    let title = format!("{} {words}{critical}", link.name);
    let _ = write!(
        out,
        "<g><title>{}</title><path class=\"link {class}\" stroke-width=\"{}\" d=\"{path}\"/>",
        brief(&title),
        n(width)
    );
    if link.state == LinkState::Overloaded {
        let _ = write!(out, "<path class=\"link core\" stroke-width=\"{}\" d=\"{path}\"/>", n(width / 3.0));
    }
    let at = |part: usize| view.place(points[(points.len() - 1) * part / 8]);
    if link.critical {
        let [x, y] = at(2);
        let _ = write!(out, "<path class=\"f1\" d=\"M{} {}l5 5-5 5-5-5z\"/>", n(x), n(y - 5.0));
    }
    let ([x0, y0], [x1, y1]) = (at(0), at(8));
    let has_room = (x1 - x0).hypot(y1 - y0) >= LABELLED_MIN || link.state > LinkState::Carries;
    if !label.is_empty() && has_room {
        let [x, y] = at(4);
        let _ = write!(
            out,
            "<text class=\"tag\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            n(x),
            n(y - 4.0),
            brief(&label)
        );
    }
    out.push_str("</g>");
}

/// The key: what each kind of line on this map means.
fn key(links: &[MapLink]) -> String {
    let line =
        |class: &str, width: f64| format!("<path class=\"link {class}\" stroke-width=\"{}\" d=\"M0 5H24\"/>", n(width));
    let states = [
        (LinkState::Carries, line("carries", 3.0), "carries something; wider: fuller"),
        (LinkState::Overloaded, line("over", 5.0) + &line("core", 1.7), "! overloaded: two lines"),
        (LinkState::Failed, line("failed", 2.0), "× down: long dashes"),
        (LinkState::Idle, line("idle", STROKE), "carries nothing: dots"),
    ];
    let mut items = String::new();
    for (state, sample, words) in states {
        if links.iter().any(|link| link.state == state) {
            let _ = write!(items, "<li><svg viewBox=\"0 0 24 10\" aria-hidden=\"true\">{sample}</svg> {words}</li>");
        }
    }
    if links.iter().any(|link| link.critical) {
        items += "<li><svg viewBox=\"0 0 24 10\" aria-hidden=\"true\"><path class=\"f1\" d=\"M12 0l5 5-5 5-5-5z\"/></svg> its failure cuts or crowds flows</li>";
    }
    format!("<ul class=\"key\">{items}</ul>")
}

fn unplaced(sites: &[MapSite]) -> String {
    let names: Vec<&str> = sites.iter().filter(|site| site.position.is_none()).map(|site| site.name.as_str()).collect();
    if names.is_empty() {
        String::new()
    } else {
        format!("<p class=\"soft\">Without a position: {}</p>", brief(&names.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(name: &str, position: Option<[f64; 2]>) -> MapSite {
        MapSite { name: name.to_owned(), position }
    }

    fn link(name: &str, ends: [usize; 2], part: f64, state: LinkState) -> MapLink {
        MapLink { name: name.to_owned(), ends, part: Some(part), state, critical: state == LinkState::Failed }
    }

    fn world() -> String {
        let sites = [
            site("perth", Some([-31.95, 115.86])),
            site("<london>", Some([51.51, -0.13])),
            site("canada", Some([49.28, -123.12])),
            site("moon", None),
        ];
        let links = [
            link("perth-london", [0, 1], 0.5, LinkState::Carries),
            link("london-canada", [1, 2], 1.4, LinkState::Overloaded),
            link("canada-perth", [2, 0], 0.0, LinkState::Failed),
            link("perth-moon", [0, 3], 0.0, LinkState::Idle),
        ];
        map("m", "Map", "links by load", &sites, &links)
    }

    #[test]
    fn states_of_links_differ_in_stroke_and_sign_and_not_only_in_colour() {
        let map = world();
        super::super::tests::well_formed(&map);
        for part in [
            "50 %",
            "! 140 %",
            "× down",
            "link core",
            "perth-london carries 50 %",
            "cuts or crowds flows",
            "&lt;london&gt;",
        ] {
            assert!(map.contains(part), "{part} is not in {map}");
        }
        assert!(map.contains("Without a position: moon") && !map.contains("perth-moon"), "{map}");
        assert!(map.contains("two lines") && map.contains("long dashes"), "the key names what is drawn");
    }

    #[test]
    fn a_line_over_the_date_line_continues_at_the_other_edge() {
        let line = great_circle([-31.95, 115.86], [49.28, -123.12]);
        let view = View { west: -180.0, north: 90.0, scale: 1.0, height: 180.0 };
        assert_eq!(view.path(&line).matches('M').count(), 2);
        let [first, .., last] = line.as_slice() else { panic!() };
        assert!((first[1] - 115.86).abs() < 1e-6 && (last[0] - 49.28).abs() < 1e-6);
    }

    #[test]
    fn all_sites_are_within_the_view() {
        for points in [[[51.5, -0.1], [48.9, 2.4]], [[-80.0, 10.0], [80.0, 12.0]], [[0.0, -170.0], [1.0, 170.0]]] {
            let view = View::of(points.iter());
            for point in points {
                let [x, y] = view.place(point);
                assert!(
                    (0.0..=WIDTH).contains(&x) && (0.0..=view.height).contains(&y),
                    "{point:?}: {x} {y} of {}",
                    view.height
                );
            }
        }
        assert_eq!(map("m", "", "", &[site("alone", Some([0.0, 0.0]))], &[]), "");
    }
}
