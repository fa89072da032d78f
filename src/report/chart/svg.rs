//! SVG as text: the few elements that charts are made of. Coordinates in pixels, rounded to a hundredth.

use std::fmt::Write;

/// A drawing that grows element by element.
#[derive(Debug)]
pub struct Svg {
    body: String,
    width: f64,
    height: f64,
}

/// Where a text is anchored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        }
    }
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stroke<'a> {
    pub colour: &'a str,
    pub width: f64,
    /// Lengths of dashes and gaps; empty is solid.
    pub dashes: &'a str,
}

fn coordinate(value: f64) -> f64 {
    // Adding zero turns -0 into 0.
    (value * 100.0).round() / 100.0 + 0.0
}

/// `text` as it may stand between tags and in attributes.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

impl Svg {
    /// An empty drawing of this size.
    pub fn new(width: f64, height: f64) -> Self {
        Self { body: String::new(), width, height }
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.body, "{element}");
    }

    /// A broken line through `points`.
    pub fn line(&mut self, points: &[(f64, f64)], stroke: Stroke<'_>) {
        let points: Vec<String> =
            points.iter().map(|&(x, y)| format!("{},{}", coordinate(x), coordinate(y))).collect();
        let dashes = match stroke.dashes {
            "" => String::new(),
            dashes => format!(" stroke-dasharray=\"{dashes}\""),
        };
        self.add(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{dashes}/>",
            points.join(" "),
            stroke.colour,
            stroke.width
        ));
    }

    /// A closed outline, filled.
    pub fn polygon(&mut self, points: &[(f64, f64)], colour: &str, fill: &str) {
        let points: Vec<String> =
            points.iter().map(|&(x, y)| format!("{},{}", coordinate(x), coordinate(y))).collect();
        self.add(format_args!(
            "<polygon points=\"{}\" fill=\"{fill}\" stroke=\"{colour}\" stroke-width=\"1.5\"/>",
            points.join(" ")
        ));
    }

    /// A circle, filled.
    pub fn circle(&mut self, (x, y): (f64, f64), radius: f64, colour: &str, fill: &str) {
        let (x, y) = (coordinate(x), coordinate(y));
        self.add(format_args!(
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" fill=\"{fill}\" stroke=\"{colour}\" stroke-width=\"1.5\"/>"
        ));
    }

    /// One line of text.
    pub fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, size: f64, colour: &str, text: &str) {
        let (x, y, text, anchor) = (coordinate(x), coordinate(y), escaped(text), anchor.name());
        self.add(format_args!(
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" font-size=\"{size}\" fill=\"{colour}\">{text}</text>"
        ));
    }

    /// One line of text that may stand on lines: a white edge keeps it legible. (An element of its own, since not all
    /// renderers know `paint-order`.)
    pub fn label(&mut self, (x, y): (f64, f64), anchor: Anchor, size: f64, colour: &str, text: &str) {
        let (left, top, edge, name) = (coordinate(x), coordinate(y), escaped(text), anchor.name());
        self.add(format_args!(
            "<text x=\"{left}\" y=\"{top}\" text-anchor=\"{name}\" font-size=\"{size}\" fill=\"#ffffff\" stroke=\"#ffffff\" stroke-width=\"4\" \
             stroke-linejoin=\"round\" aria-hidden=\"true\">{edge}</text>"
        ));
        self.text((x, y), anchor, size, colour, text);
    }

    /// One line of text from bottom to top, centred at the point.
    pub fn text_upwards(&mut self, (x, y): (f64, f64), size: f64, colour: &str, text: &str) {
        let (x, y, text) = (coordinate(x), coordinate(y), escaped(text));
        self.add(format_args!(
            "<text transform=\"translate({x} {y}) rotate(-90)\" text-anchor=\"middle\" font-size=\"{size}\" \
             fill=\"{colour}\">{text}</text>"
        ));
    }

    /// The document; `title` and `description` are for those who cannot see it.
    pub fn finish(self, title: &str, description: &str) -> String {
        let (width, height) = (self.width, self.height);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} \
             {height}\" font-family=\"Helvetica, Arial, sans-serif\" role=\"img\">\n<title>{}</title>\n<desc>{}</desc>\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n{}</svg>\n",
            escaped(title),
            escaped(description),
            self.body
        )
    }
}
