//! What a person reads: links that lead somewhere, commands that the command line knows, and a translation in step.
//! Console blocks run in `cli.rs`.
#![expect(
    clippy::unwrap_used,
    reason = "a test may stop where something is not as it should be"
)]

use clap::CommandFactory;
use dynamo_interconnect_check::cli::Cli;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Pages that are written by hand.
fn pages() -> Vec<PathBuf> {
    let named = [
        "README.md",
        "README.zh-CN.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "docs/comparison.md",
        "docs/formats.md",
        "docs/install.md",
        "docs/mcp.md",
    ];
    let mut all: Vec<PathBuf> = named.iter().map(|name| root().join(name)).collect();
    all.extend(guides());
    all
}

fn guides() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join("docs/guides")).unwrap();
    let mut all: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
    all.sort();
    assert_eq!(all.len(), 5, "{all:?}");
    all
}

/// A line of a page, and whether it stands in a block of code: fenced with this language, or indented (`indented`).
fn lines(text: &str) -> Vec<(&str, Option<&str>)> {
    let mut fence = None;
    let mut after_blank = true;
    let mut indented = false;
    let mut all = Vec::new();
    for line in text.lines() {
        if let Some(language) = line.strip_prefix("```") {
            fence = match fence {
                Some(_) => None,
                None => Some(language),
            };
            all.push((line, Some("fence")));
            continue;
        }
        indented = fence.is_none() && line.starts_with("    ") && (after_blank || indented);
        after_blank = line.is_empty();
        all.push((line, fence.or(indented.then_some("indented"))));
    }
    assert_eq!(fence, None, "a block is not closed");
    all
}

/// The anchor that a heading gets.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars()
        .filter(|c| c.is_alphanumeric() || *c == ' ' || *c == '-' || *c == '_')
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[test]
fn links_within_the_repository_lead_somewhere() {
    let mut seen = 0;
    for page in pages() {
        let text = read(&page);
        for (line, code) in lines(&text) {
            if code.is_some() {
                continue;
            }
            let sources = line
                .split("](")
                .skip(1)
                .map(|p| p.split(')').next().unwrap());
            let images = line
                .split("src=\"")
                .skip(1)
                .map(|p| p.split('"').next().unwrap());
            for target in sources.chain(images) {
                seen += 1;
                if target.starts_with("https://") {
                    continue;
                }
                let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
                let path = match file {
                    "" => page.clone(),
                    file => page.parent().unwrap().join(file),
                };
                assert!(path.is_file(), "{}: {target}", page.display());
                if !fragment.is_empty() {
                    let there = read(&path);
                    let found = lines(&there).iter().any(|(l, code)| {
                        code.is_none() && l.starts_with('#') && anchor(l) == fragment
                    });
                    assert!(found, "{}: {target}", page.display());
                }
            }
        }
    }
    assert!(seen > 60, "{seen}");
}

/// The words of a line as a shell splits it, up to what is not for this command.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            '|' | '>' | '<' | ';' if !quoted => break,
            c => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Commands with places to fill in cannot run here, and yet their options must be ones that exist.
#[test]
fn commands_that_are_shown_are_ones_that_the_command_line_knows() {
    let mut seen = 0;
    for page in pages() {
        let text = read(&page);
        for (line, code) in lines(&text) {
            if code != Some("indented") {
                continue;
            }
            for part in line.split('|') {
                let part = part
                    .trim()
                    .trim_start_matches("kubectl dynamo-interconnect-check");
                let plugin = line.trim().starts_with("kubectl dynamo-interconnect-check");
                let Some(rest) = part
                    .strip_prefix("dynamo-interconnect-check ")
                    .or(plugin.then_some(part))
                else {
                    continue;
                };
                let mut all = vec!["dynamo-interconnect-check".to_owned()];
                all.extend(words(rest));
                seen += 1;
                if let Err(error) = Cli::command().try_get_matches_from(&all) {
                    panic!("{}: {line}\n{error}", page.display());
                }
            }
        }
    }
    assert!(seen > 50, "{seen}");
}

/// A guide shows at least one real run. That each block is true is tested beside the README's.
#[test]
fn every_guide_shows_a_run() {
    for guide in guides() {
        let text = read(&guide);
        assert!(
            text.contains(
                "```console
$ dynamo-interconnect-check "
            ),
            "{}",
            guide.display()
        );
        let readme = read(&root().join("README.md"));
        let name = guide.file_name().unwrap().to_str().unwrap();
        assert!(readme.contains(&format!("docs/guides/{name}")), "{name}");
    }
}

/// What translating does not change: headings and their depth, code, tables, lists, pictures, and where links lead.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    Heading(usize),
    Code(String),
    Row(usize),
    Item,
    Paragraph,
}

fn parts(text: &str) -> Vec<Part> {
    let mut all = Vec::new();
    let mut in_paragraph = false;
    for (line, code) in lines(text) {
        let part = match code {
            Some(_) => Some(Part::Code(line.to_owned())),
            None if line.starts_with('#') => {
                let depth = line.chars().take_while(|c| *c == '#').count();
                Some(Part::Heading(depth))
            }
            None if line.starts_with('|') => Some(Part::Row(line.matches('|').count())),
            None if line.starts_with("- ") => Some(Part::Item),
            None if line.is_empty() || line.starts_with("  ") => None,
            None if in_paragraph => {
                continue;
            }
            None => Some(Part::Paragraph),
        };
        in_paragraph = part == Some(Part::Paragraph);
        all.extend(part);
    }
    all
}

fn targets(text: &str) -> Vec<String> {
    let mut all: Vec<String> = text
        .split("](")
        .skip(1)
        .map(|part| part.split(')').next().unwrap().to_owned())
        .filter(|target| !target.starts_with("README"))
        .collect();
    all.sort();
    all
}

/// Words in `code` are what is typed and what is printed, so they stay as they are.
fn typed(text: &str) -> BTreeSet<String> {
    let prose: Vec<&str> = lines(text)
        .into_iter()
        .filter_map(|(line, code)| code.is_none().then_some(line))
        .collect();
    let prose = prose.join("\n");
    prose
        .split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_chinese_readme_is_in_step() {
    let english = read(&root().join("README.md"));
    let chinese = read(&root().join("README.zh-CN.md"));
    let (en, zh) = (parts(&english), parts(&chinese));
    for (n, (a, b)) in en.iter().zip(&zh).enumerate() {
        assert_eq!(
            a,
            b,
            "part {n}; before it: {:?}",
            &en[n.saturating_sub(3)..n]
        );
    }
    assert_eq!(en.len(), zh.len());
    assert!(en.len() > 100, "{}", en.len());
    assert_eq!(targets(&english), targets(&chinese));
    assert_eq!(typed(&english), typed(&chinese));
}
