//! Minutes of the calendar, as LoCoMo's sessions are dated.

use std::fmt;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A minute of the Gregorian calendar. Displays as LoCoMo writes it: `1:56 pm on 8 May, 2023`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    pub year: usize,
    /// From 1.
    pub month: usize,
    /// From 1.
    pub day: usize,
    pub hour: usize,
    pub minute: usize,
}

impl Moment {
    /// Reads what `Display` writes; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let (time, date) = text.trim().split_once(" on ")?;
        let (clock, half) = time.trim().split_once(' ')?;
        let (hour, minute) = clock.split_once(':')?;
        let afternoon = match half.trim().to_ascii_lowercase().as_str() {
            "am" => 0,
            "pm" => 12,
            _ => return None,
        };
        let (day, date) = date.trim().split_once(' ')?;
        let (month, year) = date.split_once(',')?;
        let month = 1 + MONTHS.iter().position(|name| name.eq_ignore_ascii_case(month.trim()))?;
        let (year, day) = (year.trim().parse().ok()?, day.parse().ok()?);
        let (hour, minute): (usize, usize) = (hour.parse().ok()?, minute.parse().ok()?);
        let right = (1..=9999).contains(&year)
            && (1..=days(year, month)).contains(&day)
            && (1..=12).contains(&hour)
            && minute < 60;
        right.then_some(Self { year, month, day, hour: hour % 12 + afternoon, minute })
    }

    /// The same minute some days later.
    pub fn later(mut self, days_later: usize) -> Self {
        self.day += days_later;
        while self.day > days(self.year, self.month) {
            self.day -= days(self.year, self.month);
            self.month = self.month % 12 + 1;
            self.year += usize::from(self.month == 1);
        }
        self
    }

    /// ISO 8601, in UTC.
    pub fn iso(&self) -> String {
        let Self { year, month, day, hour, minute } = self;
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:00Z")
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { year, month, day, hour, minute } = self;
        let half = if *hour < 12 { "am" } else { "pm" };
        let hour = (hour + 11) % 12 + 1;
        write!(formatter, "{hour}:{minute:02} {half} on {day} {}, {year}", MONTHS[month - 1])
    }
}

fn days(year: usize, month: usize) -> usize {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + usize::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::Moment;

    #[test]
    fn reads_what_it_writes() {
        let mut moment = Moment { year: 2023, month: 12, day: 30, hour: 0, minute: 5 };
        for step in 0..800 {
            moment = Moment { hour: step % 24, minute: step % 60, ..moment.later(1) };
            assert_eq!(Moment::parse(&moment.to_string()), Some(moment));
        }
        // 800 days after 30 December 2023, over the leap day of 2024.
        assert_eq!((moment.year, moment.month, moment.day), (2026, 3, 9));
    }

    #[test]
    fn noon_and_midnight() {
        let iso = |text| Moment::parse(text).unwrap().iso();
        assert_eq!(iso("12:10 am on 11 August, 2023"), "2023-08-11T00:10:00Z");
        assert_eq!(iso("12:10 pm on 11 August, 2023"), "2023-08-11T12:10:00Z");
        assert_eq!(iso("1:56 PM on 8 may, 2023"), "2023-05-08T13:56:00Z");
        assert_eq!(Moment::parse("1:56 pm on 8 May, 2023").unwrap().to_string(), "1:56 pm on 8 May, 2023");
    }

    #[test]
    fn refuses_what_is_no_date() {
        for text in [
            "",
            "on",
            "1:56 pm",
            "13:56 pm on 8 May, 2023",
            "0:10 am on 8 May, 2023",
            "1:60 pm on 8 May, 2023",
            "1:56 xm on 8 May, 2023",
            "1:56 pm on 30 February, 2023",
            "1:56 pm on 8 Mai, 2023",
            "2023-05-08",
        ] {
            assert_eq!(Moment::parse(text), None, "{text}");
        }
    }
}
