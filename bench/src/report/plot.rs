//! Bar charts: SVG for light and dark pages.

use std::fmt::Write;

use super::number::number;

/// One bar a line, the longest first.
pub struct Plot {
    pub title: &'static str,
    /// What longer bars mean, and in which unit.
    pub subtitle: &'static str,
    pub is_log: bool,
    pub bars: Vec<Bar>,
}

pub struct Bar {
    pub name: String,
    pub value: f64,
    pub kind: BarKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarKind {
    Ours,
    Raw,
    Peer,
}

const WIDTH: f64 = 760.0;
const NAMES: f64 = 190.0;
const NUMBERS: f64 = 90.0;
const TOP: f64 = 58.0;
const LINE: f64 = 26.0;
const BAR: f64 = 16.0;

/// Chosen to be seen on white and on near-black; text follows the reader's page.
const STYLE: &str = "\
    text{font:13px system-ui,sans-serif;fill:#333}\
    .title{font-size:15px;font-weight:600}.soft{fill:#777}\
    .ours{fill:#d9480f}.raw{fill:#868e96}.peer{fill:#4c6ef5}.grid{stroke:#8884}\
    @media(prefers-color-scheme:dark){text{fill:#ddd}.soft{fill:#999}}";

impl Plot {
    pub fn svg(&self) -> String {
        #[allow(clippy::cast_precision_loss)]
        let height = TOP + LINE * self.bars.len() as f64 + 12.0;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             viewBox=\"0 0 {WIDTH} {height}\" \
             role=\"img\" aria-label=\"{}\">\n<style>{STYLE}</style>\n\
             <text class=\"title\" x=\"8\" y=\"20\">{}</text>\n\
             <text class=\"soft\" x=\"8\" y=\"40\">{}</text>\n",
            self.title, self.title, self.subtitle
        );
        let (from, to) = self.range();
        if self.is_log {
            self.grid(&mut svg, (from, to), height);
        }
        for (n, bar) in (0_u32..).zip(&self.bars) {
            let y = TOP + LINE * f64::from(n);
            let width = self.place(bar.value, (from, to)).max(1.5);
            let middle = y + BAR * 0.8;
            let class = match bar.kind {
                BarKind::Ours => "ours",
                BarKind::Raw => "raw",
                BarKind::Peer => "peer",
            };
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{middle:.1}\" text-anchor=\"end\">{}</text>\
                 <rect class=\"{class}\" x=\"{NAMES}\" y=\"{y:.1}\" width=\"{width:.1}\" \
                 height=\"{BAR}\" rx=\"2\"/>\
                 <text class=\"soft\" x=\"{:.1}\" y=\"{middle:.1}\">{}</text>",
                NAMES - 8.0,
                bar.name,
                NAMES + width + 6.0,
                number(bar.value)
            );
        }
        svg + "</svg>\n"
    }

    /// Of a logarithmic scale whole powers of ten, of another one from zero on.
    fn range(&self) -> (f64, f64) {
        let values = || self.bars.iter().map(|bar| bar.value).filter(|value| *value > 0.0);
        let (least, most) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
        if self.is_log && most > 0.0 {
            (10_f64.powf(least.log10().floor()), 10_f64.powf(most.log10().ceil()))
        } else {
            (0.0, most.max(f64::MIN_POSITIVE))
        }
    }

    fn place(&self, value: f64, (from, to): (f64, f64)) -> f64 {
        let room = WIDTH - NAMES - NUMBERS;
        if !self.is_log {
            return value / to * room;
        }
        // Room for the shortest bar, too.
        let decades = (to / from).log10().max(1.0) + 0.25;
        if value <= 0.0 { 0.0 } else { ((value / from).log10() + 0.25) / decades * room }
    }

    fn grid(&self, svg: &mut String, (from, to): (f64, f64), height: f64) {
        let mut power = from;
        while power <= to * 1.001 {
            let x = NAMES + self.place(power, (from, to));
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
                TOP - 6.0,
                height - 10.0
            );
            power *= 10.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(is_log: bool) -> Plot {
        let bars = [("a", 10.0), ("b", 1_000.0), ("none", 0.0)].map(|(name, value)| Bar {
            name: name.to_owned(),
            value,
            kind: BarKind::Peer,
        });
        Plot { title: "t", subtitle: "s", is_log, bars: bars.into() }
    }

    #[test]
    fn bars_grow_with_their_values_and_stay_inside() {
        for plot in [plot(false), plot(true)] {
            let range = plot.range();
            let [small, large, none] = [10.0, 1_000.0, 0.0].map(|value| plot.place(value, range));
            assert!(
                none <= 0.0
                    && 0.0 < small
                    && small < large
                    && large <= WIDTH - NAMES - NUMBERS + 0.1
            );
            assert_eq!(plot.svg().matches("<rect").count(), 3);
        }
    }
}
