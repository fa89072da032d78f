//! Charts as SVG: readable in print and without colour (each series has its marker and its dashes), labelled where
//! the data is instead of in a legend.

mod labels;
mod scale;
mod svg;

use self::labels::{Area, beside, stacked};
pub use self::scale::{Axis, Scale};
use self::svg::{Anchor, Stroke, Svg};

/// Okabe and Ito's palette, which colour-blind people can tell apart; its yellow is too light for lines.
const COLOURS: [&str; 7] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"];
const DASHES: [&str; 4] = ["", "6 2", "2 2", "8 2 2 2"];
const INK: &str = "#222222";
const FAINT: &str = "#dddddd";
/// Text sizes, pixels.
const TITLE: f64 = 14.0;
const TEXT: f64 = 12.0;
const SMALL: f64 = 11.0;

/// How the points of a series are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marker {
    Filled,
    Hollow,
}

/// Points that belong together.
#[derive(Debug, Clone)]
pub struct Series {
    /// Written beside the series; empty for none.
    pub label: String,
    /// In the order of the x axis where they are joined.
    pub points: Vec<(f64, f64)>,
    /// Chooses colour and marker: the same number looks the same.
    pub look: usize,
    pub marker: Marker,
    /// Whether a line joins the points; its number chooses the dashes.
    pub line: Option<usize>,
}

/// A value that is drawn across the whole chart.
#[derive(Debug, Clone)]
pub struct Level {
    pub label: String,
    pub y: f64,
}

/// A chart of y over x.
#[derive(Debug, Clone)]
pub struct Chart {
    pub title: String,
    /// A second line: what the data is.
    pub subtitle: String,
    pub x_label: String,
    pub x_scale: Scale,
    pub y_label: String,
    pub y_scale: Scale,
    pub series: Vec<Series>,
    pub levels: Vec<Level>,
}

impl Chart {
    /// The chart as an SVG document.
    pub fn svg(&self) -> String {
        let joined = |series: &&Series| series.line.is_some() && !series.label.is_empty();
        let ends = self.series.iter().filter(joined);
        let margin = ends.map(|series| labels::width(&series.label, TEXT)).fold(0.0, f64::max);
        let frame = Area { left: 66.0, top: 56.0, right: 560.0, bottom: 390.0 };
        let (width, height) = (frame.right + margin.max(6.0) + 34.0, 448.0);
        let points = || self.series.iter().flat_map(|series| series.points.iter().copied());
        let x = Axis::around(self.x_scale.clone(), points().map(|(x, _)| x));
        let levels = self.levels.iter().map(|level| level.y);
        let y = Axis::around(self.y_scale.clone(), points().map(|(_, y)| y).chain(levels));
        let at = |(px, py): (f64, f64)| {
            (
                frame.left + x.fraction(px) * (frame.right - frame.left),
                frame.bottom - y.fraction(py) * (frame.bottom - frame.top),
            )
        };

        let mut svg = Svg::new(width.ceil(), height);
        svg.text((frame.left, 22.0), Anchor::Start, TITLE, INK, &self.title);
        svg.text((frame.left, 40.0), Anchor::Start, SMALL, INK, &self.subtitle);
        self.draw_axes(&mut svg, frame, &x, &y);
        let mut taken: Vec<Area> = points().map(|point| Area::around(at(point), 5.0, 5.0)).collect();
        for series in self.series.iter().filter(|series| series.line.is_some()) {
            for pair in series.points.windows(2) {
                taken.extend(along(at(pair[0]), at(pair[1])));
            }
        }
        for level in &self.levels {
            let height = at((1.0, level.y)).1;
            let stroke = Stroke { colour: INK, width: 1.5, dashes: "7 4" };
            svg.line(&[(frame.left, height), (frame.right, height)], stroke);
            svg.label((frame.left + 6.0, height - 5.0), Anchor::Start, TEXT, INK, &level.label);
            let end = frame.left + 6.0 + labels::width(&level.label, TEXT);
            taken.push(Area { left: frame.left, top: height - 16.0, right: end, bottom: height + 1.0 });
        }
        for series in &self.series {
            let colour = COLOURS[series.look % COLOURS.len()];
            let places: Vec<(f64, f64)> = series.points.iter().map(|&point| at(point)).collect();
            if let Some(line) = series.line {
                svg.line(&places, Stroke { colour, width: 1.6, dashes: DASHES[line % DASHES.len()] });
            }
            for &place in &places {
                marker(&mut svg, place, series.look, colour, series.marker);
            }
        }
        self.label_ends(&mut svg, frame, &at);
        self.label_points(&mut svg, frame, &mut taken, &at);
        svg.finish(&self.title, &self.subtitle)
    }

    fn draw_axes(&self, svg: &mut Svg, frame: Area, x: &Axis, y: &Axis) {
        let grid = Stroke { colour: FAINT, width: 1.0, dashes: "" };
        let edge = Stroke { colour: INK, width: 1.0, dashes: "" };
        for (value, text) in y.ticks() {
            let height = frame.bottom - y.fraction(value) * (frame.bottom - frame.top);
            svg.line(&[(frame.left, height), (frame.right, height)], grid);
            svg.text((frame.left - 7.0, height + 4.0), Anchor::End, SMALL, INK, &text);
        }
        // Figures that would run into each other go into a second row, and where that is full, away.
        let mut free = [f64::NEG_INFINITY; 2];
        for (value, text) in x.ticks() {
            let place = frame.left + x.fraction(value) * (frame.right - frame.left);
            svg.line(&[(place, frame.bottom), (place, frame.bottom + 4.0)], edge);
            let half = labels::width(&text, SMALL) / 2.0;
            if let Some(row) = free.iter().position(|&free| place - half > free) {
                let height = frame.bottom + 17.0 + 12.0 * row as f64;
                svg.text((place, height), Anchor::Middle, SMALL, INK, &text);
                free[row] = place + half + 3.0;
            }
        }
        svg.line(&[(frame.left, frame.top), (frame.left, frame.bottom), (frame.right, frame.bottom)], edge);
        let middle = (frame.left + frame.right) / 2.0;
        svg.text((middle, frame.bottom + 46.0), Anchor::Middle, TEXT, INK, &self.x_label);
        svg.text_upwards((18.0, (frame.top + frame.bottom) / 2.0), TEXT, INK, &self.y_label);
    }

    /// Joined series are named at their right end.
    fn label_ends(&self, svg: &mut Svg, frame: Area, at: &dyn Fn((f64, f64)) -> (f64, f64)) {
        let ends: Vec<(&Series, (f64, f64))> = self
            .series
            .iter()
            .filter(|series| series.line.is_some() && !series.label.is_empty())
            .filter_map(|series| Some((series, at(*series.points.last()?))))
            .collect();
        let wanted: Vec<f64> = ends.iter().map(|(_, end)| end.1).collect();
        let heights = stacked(&wanted, TEXT + 2.0, frame.top, frame.bottom);
        for ((series, end), height) in ends.into_iter().zip(heights) {
            let colour = COLOURS[series.look % COLOURS.len()];
            let leader = Stroke { colour, width: 0.7, dashes: "" };
            svg.line(&[(end.0 + 6.0, end.1), (frame.right + 12.0, height)], leader);
            svg.text((frame.right + 15.0, height + 4.0), Anchor::Start, TEXT, INK, &series.label);
        }
    }

    /// Single points are named beside the point.
    fn label_points(
        &self,
        svg: &mut Svg,
        frame: Area,
        taken: &mut Vec<Area>,
        at: &dyn Fn((f64, f64)) -> (f64, f64),
    ) {
        for series in self.series.iter().filter(|series| series.line.is_none() && !series.label.is_empty()) {
            let Some(&point) = series.points.first() else { continue };
            let size = (labels::width(&series.label, TEXT), TEXT);
            let place = at(point);
            let area = beside(place, size, taken, frame);
            // Anchored at the side towards the point: in another face the text is as wide as it likes.
            let (x, anchor) = if area.right < place.0 {
                (area.right, Anchor::End)
            } else if area.left > place.0 {
                (area.left, Anchor::Start)
            } else {
                ((area.left + area.right) / 2.0, Anchor::Middle)
            };
            svg.label((x, area.bottom - 2.0), anchor, TEXT, INK, &series.label);
            taken.push(area);
        }
    }
}

/// Small areas that cover a line, so that no label is put on it.
fn along(from: (f64, f64), to: (f64, f64)) -> impl Iterator<Item = Area> {
    let step = 6.0;
    let count = ((to.0 - from.0).hypot(to.1 - from.1) / step).ceil().clamp(1.0, 1e4) as usize;
    (0..=count).map(move |i| {
        let t = i as f64 / count as f64;
        Area::around((from.0 + t * (to.0 - from.0), from.1 + t * (to.1 - from.1)), step / 2.0, 2.0)
    })
}

fn marker(svg: &mut Svg, (x, y): (f64, f64), look: usize, colour: &str, marker: Marker) {
    let fill = if marker == Marker::Filled { colour } else { "#ffffff" };
    let shape: &[(f64, f64)] = match look % 5 {
        0 => return svg.circle((x, y), 4.0, colour, fill),
        1 => &[(-3.6, -3.6), (3.6, -3.6), (3.6, 3.6), (-3.6, 3.6)],
        2 => &[(0.0, -4.8), (4.6, 3.4), (-4.6, 3.4)],
        3 => &[(0.0, -5.0), (5.0, 0.0), (0.0, 5.0), (-5.0, 0.0)],
        _ => &[(0.0, 4.8), (4.6, -3.4), (-4.6, -3.4)],
    };
    let points: Vec<(f64, f64)> = shape.iter().map(|&(dx, dy)| (x + dx, y + dy)).collect();
    svg.polygon(&points, colour, fill);
}
