//! From the lines of a matrix to its rows and columns.

use super::super::transcript::{self, excerpt};
use super::{Gpu, Matrix, Nic, Path};
use std::collections::BTreeMap;

/// Words of a line that may stand before a row name: level, timestamp, pod and container of a logger.
const PREFIX_WORDS: usize = 8;

/// Rows, and cells of a row, that are read at most. The largest host seen has 70 of each; a text that goes on for ever
/// must not.
const SIDE: usize = 1024;

/// Characters of one row, continuation lines joined.
const ROW_LENGTH: usize = 16 * 1024;

/// The matrix in a text, or `None` where no GPU row is found.
pub(super) fn matrix(text: &str) -> Option<Matrix> {
    let lines = Lines::read(text);
    let rows: Vec<Row> = lines.rows.iter().map(Row::read).collect();
    if !rows.iter().any(|row| gpu_index(row.name).is_some()) {
        return None;
    }
    let columns = columns(&rows, &lines.header);
    let mut matrix = Matrix {
        has_legend: lines.has_legend,
        unread_lines: lines.unread,
        differing_row: lines.differing.as_deref().map(excerpt),
        ..Matrix::default()
    };
    let is_gpu: Vec<bool> = columns
        .iter()
        .map(|name| gpu_index(name).is_some())
        .collect();
    for (place, name) in columns.iter().enumerate() {
        match gpu_index(name) {
            Some(index) => {
                let row = rows.iter().find(|row| row.name == name);
                let trusted = row.filter(|row| row.cells.get(place) == Some(&Cell::Itself));
                matrix
                    .gpus
                    .push(gpu(index, trusted, &is_gpu, &lines.header));
            }
            None => matrix.nics.push(nic(name, &lines)),
        }
    }
    for row in &rows {
        let place = columns.iter().position(|name| name == row.name);
        if place.is_none_or(|place| row.cells.get(place) != Some(&Cell::Itself)) {
            matrix.damaged_rows.push(excerpt(row.name));
        }
    }
    Some(matrix)
}

fn gpu(index: u32, row: Option<&Row<'_>>, is_gpu: &[bool], header: &str) -> Gpu {
    let mut gpu = Gpu {
        index,
        ..Gpu::default()
    };
    for (place, &to_gpu) in is_gpu.iter().enumerate() {
        let path = match row.and_then(|row| row.cells.get(place)) {
            Some(Cell::Path(path)) => Some(*path),
            Some(Cell::Itself) | None => None,
        };
        if to_gpu {
            gpu.to_gpus.push(path);
        } else {
            gpu.to_nics.push(path);
        }
    }
    if let Some(row) = row {
        affinity(&mut gpu, row.rest, header);
    }
    gpu
}

fn nic(column: &str, lines: &Lines) -> Nic {
    let device = if column.starts_with("NIC") {
        lines.legend.get(column).cloned().flatten()
    } else {
        Some(excerpt(column))
    };
    Nic {
        column: excerpt(column),
        device,
    }
}

/// CPU list, NUMA list and GPU NUMA id behind the cells. With tabs each has its place, and an empty place is empty. With
/// blanks an empty place leaves no trace and neighbours may be glued (`96-143` and `0` to `96-1430`), so fewer words
/// than the header has columns say nothing.
fn affinity(gpu: &mut Gpu, rest: &str, header: &str) {
    let known = |text: &str| {
        let text = text.trim();
        (!text.is_empty() && text != "N/A").then(|| excerpt(text))
    };
    // A glued CPU list starts at once; otherwise a tab ends the last cell.
    let rest = rest.strip_prefix('\t').unwrap_or(rest);
    let fields: Vec<&str> = if rest.contains('\t') {
        // The tool prints two tabs before the last column.
        let fields: Vec<&str> = rest.split('\t').collect();
        match fields[..] {
            [cpus, numa, "", id, ..] => vec![cpus, numa, id],
            _ => fields,
        }
    } else {
        let columns = ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]
            .iter()
            .filter(|column| header.contains(**column))
            .count();
        let words: Vec<&str> = rest.split_whitespace().take(3).collect();
        if words.len() < columns {
            return;
        }
        words
    };
    gpu.cpu_affinity = fields.first().and_then(|text| known(text));
    gpu.numa_affinity = fields.get(1).and_then(|text| known(text));
    gpu.numa_id = fields.get(2).and_then(|text| transcript::small(text));
}

/// Names of the columns. The matrix is square, so the row names are the columns; the header is asked only where rows
/// are missing.
fn columns(rows: &[Row<'_>], header: &str) -> Vec<String> {
    let width = rows
        .iter()
        .filter(|row| gpu_index(row.name).is_some())
        .map(|row| row.cells.len())
        .max()
        .unwrap_or_default();
    let mut names: Vec<String> = Vec::new();
    for row in rows {
        if !names.iter().any(|name| name == row.name) {
            names.push(row.name.to_owned());
        }
    }
    if names.len() == width {
        return names;
    }
    let mut header = header_cells(header);
    if header.len() >= width {
        header.truncate(width);
        return header;
    }
    // Neither is whole. The order of the rows still holds; what is beyond them can only be adapters.
    names.truncate(width);
    let gpus = names
        .iter()
        .filter(|name| gpu_index(name).is_some())
        .count();
    while names.len() < width {
        names.push(format!("NIC{}", names.len() - gpus));
    }
    names
}

/// `GPU0 GPU1 NIC0NIC1CPU Affinity` up to the affinity columns.
fn header_cells(header: &str) -> Vec<String> {
    let mut cells = Vec::new();
    let mut rest = header.trim_start();
    while !rest.is_empty() && !rest.starts_with("CPU") && cells.len() < SIDE {
        let length = numbered(rest, "GPU")
            .or_else(|| numbered(rest, "NIC"))
            .unwrap_or_else(|| rest.find(char::is_whitespace).unwrap_or(rest.len()));
        cells.push(excerpt(&rest[..length]));
        rest = rest[length..].trim_start();
    }
    cells
}

/// Length of `<prefix><digits>` at the start.
fn numbered(text: &str, prefix: &str) -> Option<usize> {
    let digits = text.strip_prefix(prefix)?;
    let count = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    (count > 0).then_some(prefix.len() + count)
}

fn gpu_index(name: &str) -> Option<u32> {
    name.strip_prefix("GPU")?.parse().ok()
}

/// A row as it stands in the text, continuation lines joined.
struct RawRow {
    name: String,
    text: String,
}

/// What the lines of the text are.
#[derive(Default)]
struct Lines {
    header: String,
    rows: Vec<RawRow>,
    has_legend: bool,
    /// By column; `None` for an entry that is no device name.
    legend: BTreeMap<String, Option<String>>,
    unread: u32,
    /// Name of a row that came again with other cells.
    differing: Option<String>,
}

/// What the line before was, so that a wrapped line can be joined to it.
enum Last {
    Nothing,
    Header,
    Row,
}

impl Lines {
    fn read(text: &str) -> Self {
        let mut lines = Self::default();
        let mut last = Last::Nothing;
        for line in transcript::lines(text) {
            last = lines.line(&line, last);
        }
        lines
    }

    fn line(&mut self, line: &str, last: Last) -> Last {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.ends_with("{}") {
            return Last::Nothing;
        }
        if trimmed.ends_with("NIC Legend:") {
            self.has_legend = true;
            return Last::Nothing;
        }
        if let Some((column, name)) = self.legend_entry(trimmed) {
            self.legend.insert(column, name);
            return Last::Nothing;
        }
        if trimmed.ends_with("Legend:") || trimmed.contains('=') {
            return Last::Nothing;
        }
        if let Some((name, text)) = row(line) {
            let before = self.rows.iter().find(|row| row.name == name);
            if before.is_some_and(|row| Cell::read_all(&row.text).0 != Cell::read_all(text).0) {
                self.differing.get_or_insert_with(|| name.to_owned());
            }
            if before.is_some() || self.rows.len() >= SIDE {
                self.unread += 1;
                return Last::Nothing;
            }
            self.rows.push(RawRow {
                name: name.to_owned(),
                text: text.to_owned(),
            });
            return Last::Row;
        }
        if let Some(at) = line.find("GPU0")
            && self.rows.is_empty()
            && line[at..].split_whitespace().next().is_some()
        {
            self.header = line[at..].to_owned();
            return Last::Header;
        }
        match last {
            Last::Header if self.header.len() < ROW_LENGTH => {
                self.header.push_str(line);
                return Last::Header;
            }
            Last::Row if continues_row(trimmed) => {
                if let Some(row) = self.rows.last_mut().filter(|r| r.text.len() < ROW_LENGTH) {
                    join(&mut row.text, line);
                }
                return Last::Row;
            }
            _ => {}
        }
        if transcript::prompt(line).is_none() {
            self.unread += 1;
        }
        Last::Nothing
    }

    /// `NIC4: mlx5_bond_0`. Names without a digit, with blanks or of one character are pieces of the table that the tool
    /// or the copy leaked into the legend; the kernel numbers its devices.
    fn legend_entry(&self, line: &str) -> Option<(String, Option<String>)> {
        let at = line.find("NIC")?;
        let (column, name) = line[at..].split_once(':')?;
        if numbered(column, "NIC") != Some(column.len()) {
            return None;
        }
        let name = name.trim();
        let plausible = name.len() >= 2
            && name.len() <= 64
            && name.contains(|c: char| c.is_ascii_digit())
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
        Some((column.to_owned(), plausible.then(|| name.to_owned())))
    }
}

/// The rest of a wrapped row: cells, the tail of one, or affinity.
fn continues_row(trimmed: &str) -> bool {
    trimmed.len() < 4096
        && trimmed.split_whitespace().all(|word| {
            !word.is_empty()
                && word
                    .chars()
                    .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || ",-/".contains(c))
        })
}

/// A terminal cuts in the middle of a word, so the parts are joined without a blank. Only behind a finished number a
/// blank is kept, because there a cut between two columns is as likely and gluing would make another number.
fn join(text: &mut String, more: &str) {
    let cells_end = Cell::read_all(text).1;
    let in_affinity = cells_end
        .trim_start()
        .starts_with(|c: char| c.is_ascii_digit());
    if in_affinity && text.ends_with(|c: char| c.is_ascii_digit()) {
        text.push(' ');
    }
    text.push_str(more);
}

/// Name and cells of a row. Row names are `GPU#`, `NIC#`, or, alone at the start, a device name.
fn row(line: &str) -> Option<(&str, &str)> {
    let mut rest = line;
    for place in 0..PREFIX_WORDS {
        rest = rest.trim_start();
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (name, text) = rest.split_at(end);
        if name.is_empty() {
            return None;
        }
        let cells = Cell::read(text.trim_start());
        let standard = [numbered(name, "GPU"), numbered(name, "NIC")].contains(&Some(name.len()));
        let device = place == 0
            && Cell::read(name).is_none()
            && name.contains(|c: char| c.is_ascii_digit())
            && name.starts_with(|c: char| c.is_ascii_lowercase());
        if (standard || device) && cells.is_some() {
            return Some((name, text));
        }
        rest = text;
    }
    None
}

/// A row with its cells read.
struct Row<'a> {
    name: &'a str,
    cells: Vec<Cell>,
    rest: &'a str,
}

impl<'a> Row<'a> {
    fn read(raw: &'a RawRow) -> Self {
        let (cells, rest) = Cell::read_all(&raw.text);
        Self {
            name: &raw.name,
            cells,
            rest,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cell {
    Itself,
    Path(Path),
}

impl Cell {
    /// The cell at the start of a text, and the text behind it.
    fn read(text: &str) -> Option<(Self, &str)> {
        const WORDS: &[(&str, Cell)] = &[
            ("X", Cell::Itself),
            ("PIX", Cell::Path(Path::Pix)),
            ("PXB", Cell::Path(Path::Pxb)),
            ("PHB", Cell::Path(Path::Phb)),
            ("NODE", Cell::Path(Path::Node)),
            ("SYS", Cell::Path(Path::Sys)),
            ("SOC", Cell::Path(Path::Sys)),
        ];
        if let Some(length) = numbered(text, "NV") {
            let links = text["NV".len()..length].parse().ok()?;
            return Some((Self::Path(Path::NvLink(links)), &text[length..]));
        }
        WORDS
            .iter()
            .find_map(|(word, cell)| Some((*cell, text.strip_prefix(word)?)))
    }

    /// All cells from the start, and what follows them, its leading tab included.
    fn read_all(text: &str) -> (Vec<Self>, &str) {
        let (mut cells, mut rest) = (Vec::new(), text);
        while let Some((cell, tail)) = Self::read(rest.trim_start())
            && cells.len() < SIDE
        {
            cells.push(cell);
            rest = tail.strip_prefix(' ').unwrap_or(tail);
        }
        (cells, rest)
    }
}
