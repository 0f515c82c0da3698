//! Plain text tables: columns as wide as their widest cell, two spaces between, numbers to the right.

use bytesize::ByteSize;

/// Lays out rows under a head. A head that begins with `>` makes its column right-aligned.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let right: Vec<bool> = head.iter().map(|h| h.starts_with('>')).collect();
    let head: Vec<String> = head
        .iter()
        .map(|h| h.trim_start_matches('>').to_owned())
        .collect();
    let width = |column: usize| {
        let cells = std::iter::once(&head).chain(rows);
        cells
            .filter_map(|row| row.get(column))
            .map(|c| c.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut text = String::new();
    for row in std::iter::once(&head).chain(rows) {
        let mut line = String::new();
        for ((cell, width), right) in row.iter().zip(&widths).zip(&right) {
            let pad = " ".repeat(width - cell.chars().count());
            let cell = if *right {
                pad + cell
            } else {
                cell.clone() + &pad
            };
            line.push_str(&cell);
            line.push_str("  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Bytes for people.
pub(crate) fn bytes(count: u64) -> String {
    ByteSize(count).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [["ds-1", "1.0 GiB"], ["ds-10", "20 B"]].map(|r| r.map(str::to_owned).to_vec());
        assert_eq!(
            table(&["SERVER", ">FREE"], &rows),
            "SERVER     FREE\nds-1    1.0 GiB\nds-10      20 B\n"
        );
    }
}
