//! Dates of generated conversations.

use std::fmt;

use super::random::Random;
use super::words::MONTHS;

/// A minute of the Gregorian calendar. Displays as LoCoMo writes it: `1:56 pm on 8 May, 2023`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    year: usize,
    /// From 0.
    month: usize,
    /// From 1.
    day: usize,
    hour: usize,
    minute: usize,
}

impl Moment {
    /// The eve of a conversation.
    pub fn draw(random: &mut Random) -> Self {
        let (year, month) = (random.between(2021, 2024), random.below(12));
        Self { year, month, day: random.between(1, 28), hour: 0, minute: 0 }
    }

    /// Moves on by some days, to some minute between 8:00 and 21:59, and returns that moment.
    pub fn later(&mut self, random: &mut Random) -> Self {
        self.day += random.between(2, 18);
        while self.day > days(self.year, self.month) {
            self.day -= days(self.year, self.month);
            self.month = (self.month + 1) % 12;
            self.year += usize::from(self.month == 0);
        }
        (self.hour, self.minute) = (random.between(8, 21), random.below(60));
        *self
    }

    /// ISO 8601, in UTC.
    pub fn iso(&self) -> String {
        let Self { year, month, day, hour, minute } = self;
        format!("{year}-{:02}-{day:02}T{hour:02}:{minute:02}:00Z", month + 1)
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { year, month, day, hour, minute } = self;
        let half = if *hour < 12 { "am" } else { "pm" };
        let hour = (hour + 11) % 12 + 1;
        write!(formatter, "{hour}:{minute:02} {half} on {day} {}, {year}", MONTHS[*month])
    }
}

fn days(year: usize, month: usize) -> usize {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        1 => 28 + usize::from(leap),
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
}
