//! Tables in Markdown.

pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(head: &[&str]) -> Table {
        Table { rows: vec![head.iter().map(|&cell| cell.to_owned()).collect()] }
    }

    /// What is not known is a dash.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Option<String>>) {
        let cells = cells.into_iter().map(|cell| cell.unwrap_or_else(|| "-".to_owned()));
        self.rows.push(cells.collect());
    }

    pub fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }

    pub fn markdown(&self) -> String {
        let mut lines: Vec<_> =
            self.rows.iter().map(|row| format!("| {} |", row.join(" | "))).collect();
        lines.insert(1, format!("|{}", " --- |".repeat(self.rows[0].len())));
        lines.join("\n") + "\n"
    }
}
