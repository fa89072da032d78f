//! Which pairs are computed together.

/// Cuts pairs of these `lengths` into groups of about `limit` tokens, longest pairs first; returns each group's
/// indices. A pair longer than the limit makes a group of its own.
///
/// A forward pass over a group needs memory in proportion to its tokens, and no pair's result depends on the
/// others in its group: so one pass of `--batch` pairs may be computed group by group.
pub(super) fn groups(lengths: &[usize], limit: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(lengths[index]));
    let total: usize = lengths.iter().sum();
    // Even shares: no small last group that would leave processors idle.
    let share = total.div_ceil(total.div_ceil(limit.max(1)).max(1));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut tokens = 0;
    for index in order {
        if groups.is_empty() || tokens + lengths[index] / 2 > share {
            groups.push(Vec::new());
            tokens = 0;
        }
        tokens += lengths[index];
        if let Some(group) = groups.last_mut() {
            group.push(index);
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_is_in_one_group_and_groups_are_even() {
        let lengths: Vec<usize> = (0..200).map(|i| 20 + (i * 37) % 130).collect();
        let groups = groups(&lengths, 2048);
        let mut seen: Vec<usize> = groups.concat();
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..200));
        let sizes: Vec<usize> = groups.iter().map(|g| g.iter().map(|&i| lengths[i]).sum()).collect();
        let (low, high) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
        assert!(high - low < 300, "{sizes:?}");
    }

    #[test]
    fn a_pair_over_the_limit_is_a_group_of_its_own() {
        assert_eq!(groups(&[8192, 8192, 10], 2048), [vec![0], vec![1], vec![2]]);
        assert_eq!(groups(&[5], 2048), [[0]]);
        assert!(groups(&[], 2048).is_empty());
    }
}
