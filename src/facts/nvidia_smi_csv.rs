//! `nvidia-smi --query-gpu=.. --format=csv`: a table of chosen fields.

use super::Unparsable;
use super::transcript::{self, excerpt};

/// The table as printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// Field names without their unit: `memory.total`.
    pub columns: Vec<String>,
    /// Units of the columns, where the header has them: `MiB`.
    pub units: Vec<Option<String>>,
    /// One row for each GPU, as many cells as columns.
    pub rows: Vec<Vec<String>>,
    /// Lines with another number of cells.
    pub unread_lines: u32,
}

/// One GPU of the table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gpu {
    /// `index`.
    pub index: Option<u32>,
    /// `name`, or `gpu_name`.
    pub name: Option<String>,
    /// `uuid`, or `gpu_uuid`.
    pub uuid: Option<String>,
    /// `pci.bus_id`, or `gpu_bus_id`.
    pub bus_id: Option<String>,
    /// `driver_version`.
    pub driver_version: Option<String>,
    /// `compute_cap`: `9.0`.
    pub compute_capability: Option<String>,
    /// `memory.total`, in bytes; the tool prints MiB.
    pub memory_total_bytes: Option<u64>,
    /// `memory.used`, in bytes.
    pub memory_used_bytes: Option<u64>,
    /// `addressing_mode`.
    pub addressing_mode: Option<String>,
}

impl Table {
    /// The cell of a row, `None` where the tool had no answer (`[N/A]`, `[Not Supported]`, `[Unknown Error]`).
    pub fn cell(&self, row: usize, column: &str) -> Option<&str> {
        let at = self.columns.iter().position(|name| name == column)?;
        let cell = self.rows.get(row)?.get(at)?;
        let no_answer = cell.is_empty() || cell == "N/A" || cell.starts_with('[');
        (!no_answer).then_some(cell)
    }

    /// The rows as GPUs.
    pub fn gpus(&self) -> Vec<Gpu> {
        (0..self.rows.len())
            .map(|row| {
                let cell = |names: &[&str]| {
                    names
                        .iter()
                        .find_map(|name| self.cell(row, name))
                        .map(str::to_owned)
                };
                let mebibytes = |name| {
                    self.cell(row, name)
                        .and_then(transcript::integer)
                        .and_then(|mib| mib.checked_mul(1 << 20))
                };
                Gpu {
                    index: self.cell(row, "index").and_then(transcript::small),
                    name: cell(&["name", "gpu_name"]),
                    uuid: cell(&["uuid", "gpu_uuid"]),
                    bus_id: cell(&["pci.bus_id", "gpu_bus_id"]),
                    driver_version: cell(&["driver_version"]),
                    compute_capability: cell(&["compute_cap"]),
                    memory_total_bytes: mebibytes("memory.total"),
                    memory_used_bytes: mebibytes("memory.used"),
                    addressing_mode: cell(&["addressing_mode"]),
                }
            })
            .collect()
    }
}

/// Reads a table with its header.
pub fn parse(text: &str) -> Result<Table, Unparsable> {
    let mut lines = transcript::lines(text).filter(|line| {
        let line = line.trim();
        !line.is_empty() && transcript::prompt(line).is_none()
    });
    let header = lines.next().unwrap_or_default();
    let columns: Vec<&str> = header.split(',').map(str::trim).collect();
    if !columns.iter().all(|name| is_field(name)) || columns == ["index"] && header.contains(' ') {
        return Err(Unparsable::new(TOOL, text));
    }
    let (names, units): (Vec<String>, Vec<Option<String>>) =
        columns.iter().map(|column| named(column)).unzip();
    let mut table = Table {
        columns: names,
        units,
        ..Table::default()
    };
    for line in lines {
        table.row(&line);
    }
    Ok(table)
}

/// Reads a table printed with `noheader`, whose fields the caller asked for.
pub fn parse_rows(text: &str, columns: &[&str]) -> Result<Table, Unparsable> {
    let mut table = Table {
        columns: columns.iter().map(|&name| name.to_owned()).collect(),
        units: vec![None; columns.len()],
        ..Table::default()
    };
    for line in transcript::lines(text) {
        if !line.trim().is_empty() {
            table.row(&line);
        }
    }
    if table.rows.is_empty() {
        return Err(Unparsable::new(TOOL, text));
    }
    Ok(table)
}

const TOOL: &str = "nvidia-smi --query-gpu --format=csv";

impl Table {
    fn row(&mut self, line: &str) {
        let cells: Vec<String> = line.split(',').map(excerpt).collect();
        if cells.len() == self.columns.len() {
            self.rows.push(cells);
        } else {
            self.unread_lines += 1;
        }
    }
}

/// `memory.total [MiB]` -> name and unit.
fn named(column: &str) -> (String, Option<String>) {
    match column.split_once('[') {
        Some((name, unit)) => (excerpt(name), Some(excerpt(unit.trim_end_matches(']')))),
        None => (excerpt(column), None),
    }
}

/// Field names are lower case with dots and underscores, a unit in brackets behind them.
fn is_field(column: &str) -> bool {
    let name = column.split('[').next().unwrap_or_default().trim_end();
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.len() <= 80
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Written by hand after nvidia-smi of R550.
    const OUTPUT: &str =
        "index, name, uuid, pci.bus_id, driver_version, memory.total [MiB], addressing_mode
0, NVIDIA H100 80GB HBM3, GPU-1, 00000000:19:00.0, 550.54.15, 81559 MiB, None
1, NVIDIA H100 80GB HBM3, GPU-2, 00000000:3B:00.0, 550.54.15, [Unknown Error], [N/A]
2, short row
";

    #[test]
    fn fields_are_found_by_name() {
        let table = parse(OUTPUT).unwrap();
        let gpus = table.gpus();
        assert_eq!(gpus.len(), 2);
        assert_eq!(gpus[0].memory_total_bytes, Some(81559 << 20));
        assert_eq!(gpus[0].bus_id.as_deref(), Some("00000000:19:00.0"));
        assert_eq!(gpus[1].memory_total_bytes, None);
        assert_eq!(gpus[1].addressing_mode, None);
        assert_eq!(table.units[5].as_deref(), Some("MiB"));
        assert_eq!(table.unread_lines, 1);
    }

    #[test]
    fn rows_without_a_header_need_the_question() {
        let table = parse_rows("0, 550.54.15\n", &["index", "driver_version"]).unwrap();
        assert_eq!(table.gpus()[0].driver_version.as_deref(), Some("550.54.15"));
        assert!(parse_rows("No devices were found\n", &["index", "name"]).is_err());
    }

    #[test]
    fn foreign_text_is_refused() {
        for text in ["", "No devices were found", "GPU 0: x", "Thu Nov 30, 2026"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
