//! Labels beside what they name, moved apart until none covers another.

/// A rectangle, pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Area {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Area {
    /// Centred at a point.
    pub fn around((x, y): (f64, f64), half_width: f64, half_height: f64) -> Self {
        Self { left: x - half_width, top: y - half_height, right: x + half_width, bottom: y + half_height }
    }

    fn shared_with(&self, other: &Area) -> f64 {
        let width = self.right.min(other.right) - self.left.max(other.left);
        let height = self.bottom.min(other.bottom) - self.top.max(other.top);
        if width > 0.0 && height > 0.0 { width * height } else { 0.0 }
    }
}

/// About how wide a text is, pixels, in the usual sans-serif faces.
pub fn width(text: &str, size: f64) -> f64 {
    let narrow =
        |c: char| matches!(c, 'i' | 'j' | 'l' | 't' | 'f' | 'r' | ' ' | '.' | ',' | '-' | '(' | ')' | '|');
    text.chars().map(|c| if narrow(c) { 0.36 } else { 0.62 }).sum::<f64>() * size
}

/// Heights for labels that stand under each other, each as near as can be to the height it asks for, at least `gap`
/// apart, from `top` to `bottom`. In the order of `wanted`.
pub fn stacked(wanted: &[f64], gap: f64, top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));
    // Runs of labels that touch: (first in order, count, place of the first).
    let mut runs: Vec<(usize, usize, f64)> = Vec::new();
    let ideal = |first: usize, count: usize| {
        let sum: f64 = (0..count).map(|i| wanted[order[first + i]] - i as f64 * gap).sum();
        let extent = (count - 1) as f64 * gap;
        (sum / count as f64).min(bottom - extent).max(top)
    };
    for i in 0..order.len() {
        let mut run = (i, 1, ideal(i, 1));
        while let Some(&(first, count, place)) = runs.last() {
            if place + count as f64 * gap <= run.2 {
                break;
            }
            run = (first, count + run.1, ideal(first, count + run.1));
            runs.pop();
        }
        runs.push(run);
    }
    let mut heights = vec![0.0; wanted.len()];
    for (first, count, place) in runs {
        for i in 0..count {
            heights[order[first + i]] = place + i as f64 * gap;
        }
    }
    heights
}

/// Where a label of `size` goes near `point`: the first place around it that covers nothing in `taken` and lies in
/// `frame`, or the one that covers least.
pub fn beside(point: (f64, f64), size: (f64, f64), taken: &[Area], frame: Area) -> Area {
    let (half_width, half_height) = (size.0 / 2.0, size.1 / 2.0);
    let places = [1.0, 1.8, 2.8].into_iter().flat_map(|far: f64| {
        let (dx, dy) = (half_width + 9.0 * far, half_height + 7.0 * far);
        [(dx, 0.0), (0.0, -dy), (0.0, dy), (-dx, 0.0), (dx, -dy), (dx, dy), (-dx, -dy), (-dx, dy)]
    });
    let mut best = (f64::INFINITY, Area::around(point, half_width, half_height));
    for (dx, dy) in places {
        let area = Area::around((point.0 + dx, point.1 + dy), half_width, half_height);
        let covered: f64 = taken.iter().map(|other| area.shared_with(other)).sum();
        let outside = size.0 * size.1 - area.shared_with(&frame);
        if covered + outside < best.0 {
            best = (covered + outside, area);
        }
        if best.0 < 1e-9 {
            break;
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacked_labels_keep_their_distance_and_order() {
        let wanted = [50.0, 10.0, 12.0, 11.0, 99.0, 98.0, 50.0];
        let heights = stacked(&wanted, 14.0, 0.0, 100.0);
        let mut order: Vec<usize> = (0..wanted.len()).collect();
        order.sort_by(|&a, &b| heights[a].total_cmp(&heights[b]));
        for pair in order.windows(2) {
            assert!(heights[pair[1]] - heights[pair[0]] > 14.0 - 1e-9, "{heights:?}");
            assert!(wanted[pair[0]] <= wanted[pair[1]]);
        }
        assert!(heights.iter().all(|height| (0.0..=100.0).contains(height)), "{heights:?}");
        assert_eq!(stacked(&[30.0], 14.0, 0.0, 100.0), [30.0]);
        assert_eq!(stacked(&[30.0, 60.0], 14.0, 0.0, 100.0), [30.0, 60.0]);
    }

    #[test]
    fn a_label_goes_where_nothing_is() {
        let frame = Area { left: 0.0, top: 0.0, right: 200.0, bottom: 100.0 };
        let size = (60.0, 12.0);
        let first = beside((100.0, 50.0), size, &[], frame);
        assert!(first.left > 100.0);
        let second = beside((100.0, 52.0), size, &[first], frame);
        assert_eq!(second.shared_with(&first), 0.0);
        let at_the_edge = beside((195.0, 50.0), size, &[], frame);
        assert_eq!(at_the_edge.shared_with(&frame), 60.0 * 12.0);
    }
}
