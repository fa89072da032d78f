//! Evidence annotations, which people wrote, as ids of turns.

/// The turn ids in `annotations`, in the plain form `D8:6`, each once, in order.
///
/// Some annotations hold several ids (`D8:6; D9:17`), none (`D`), a colon too many (`D:11:26`) or leading
/// zeros (`D30:05`): what reads as a session and a turn is taken, the rest is not.
pub fn turn_ids(annotations: &[String]) -> Vec<String> {
    let mut ids = Vec::new();
    for annotation in annotations {
        for piece in annotation.split('D').skip(1) {
            if let Some((session, turn)) = turn(piece) {
                let id = format!("D{session}:{turn}");
                if !ids.contains(&id) {
                    ids.push(id);
                }
            }
        }
    }
    ids
}

/// Session and turn at the beginning of what follows a `D`.
fn turn(piece: &str) -> Option<(u32, u32)> {
    let (session, rest) = number(piece.strip_prefix(':').unwrap_or(piece))?;
    let (turn, _) = number(rest.strip_prefix(':')?)?;
    Some((session, turn))
}

/// The number that `text` begins with, and the rest.
fn number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::turn_ids;

    #[test]
    fn irregular_annotations_are_read() {
        for (annotations, ids) in [
            (&["D1:3"][..], &["D1:3"][..]),
            (&["D8:6; D9:17"], &["D8:6", "D9:17"]),
            (&["D1:18", "D", "D1:20"], &["D1:18", "D1:20"]),
            (&["D:11:26"], &["D11:26"]),
            (&["D9:1 D4:4 D4:6"], &["D9:1", "D4:4", "D4:6"]),
            (&["D4:5", "D4:5", "D5:5"], &["D4:5", "D5:5"]),
            (&["D30:05"], &["D30:5"]),
            (&["D5", "5:5", "D:", "D99999999999:1", "DD2:1,D2:2)"], &["D2:1", "D2:2"]),
            (&[], &[]),
        ] {
            let annotations: Vec<String> = annotations.iter().map(|text| text.to_string()).collect();
            assert_eq!(turn_ids(&annotations), ids, "{annotations:?}");
        }
    }
}
