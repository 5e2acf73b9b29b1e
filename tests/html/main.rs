//! `-o html`: what stands on the page, that nothing of it acts, and that it stays a page for a thousand workers. A real
//! browser looks at it where `INTERCONNECT_BROWSER` names one and `INTERCONNECT_BROWSER_MODULES` the `node_modules` that
//! holds playwright-core and axe-core; `.ci/run` sets both.
#![expect(
    clippy::unwrap_used,
    reason = "a test may stop where something is not as it should be"
)]

mod reports;
#[path = "../support/skip.rs"]
mod skip;

use dynamo_interconnect_check::render::html::render;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn tool(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dynamo-interconnect-check"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(args)
        .output()
        .unwrap()
}

fn page(args: &[&str]) -> String {
    let text = String::from_utf8(tool(args).stdout).unwrap();
    assert!(text.starts_with("<!DOCTYPE html>"), "{args:?}: {text:.200}");
    assert!(text.ends_with("</html>"), "{args:?}");
    text
}

#[track_caller]
fn in_order(text: &str, parts: &[&str]) {
    let mut at = 0;
    for part in parts {
        let found = text[at..].find(part);
        at +=
            found.unwrap_or_else(|| panic!("{part} is not there, or not in its place: {parts:?}"));
    }
}

#[test]
fn the_answer_comes_first_then_the_fix_then_the_evidence() {
    in_order(
        &page(&["demo", "tcp-fallback", "-o", "html"]),
        &[
            "NOT TRUSTED</span></h1>",
            "cannot be trusted; fix first:",
            "<h2>Fix first</h2>",
            "device-not-granted",
            "deploy.yaml:64:26",
            "rdma/ib: &quot;8&quot;",
            "<h2>Deployment</h2>",
            "<h2>Topology</h2>",
            "wrong lane",
            "<h2>Pairs</h2>",
            "0.9 / 0.5",
            "<h2>Environment</h2>",
            "UCX_TLS",
            "recipe, object, pod-spec, container, process",
            "<h2>Evidence</h2>",
            "<summary>4 checks failed</summary>",
        ],
    );
}

#[test]
fn every_reporting_command_draws_a_page() {
    let scratch = tempfile::tempdir().unwrap();
    let pasted = scratch.path().join("ulimit.txt");
    fs::write(&pasted, "unlimited\n").unwrap();
    let input = format!("ulimit={}", pasted.display());
    for args in [
        &["env", "tests/manifests/beta.yaml", "-o", "html"][..],
        &["env", "tests/manifests", "-o", "html"],
        &["env", "no-such-file.yaml", "-o", "html"],
        &["node", "--input", &input, "-o", "html"],
        &["nixl", "--from", "no-such-recording", "-o", "html"],
        &["check", "--from", "no-such-recording", "-o", "html"],
        &["demo", "healthy", "-o", "html"],
        &["demo", "gb200-rack", "-o", "html"],
    ] {
        let text = page(args);
        assert_eq!(text.matches("<h1>").count(), 1, "{args:?}");
        assert!(text.contains("<html lang=\"en\">"), "{args:?}");
    }
    let out = tool(&["explain", "UCX_TLS", "-o", "html"]);
    assert_eq!(out.status.code(), Some(2), "explain shows no report");
}

#[test]
fn the_picture_shows_each_lane_in_its_real_state() {
    let text = render(&reports::square());
    let svg = &text[text.find("<svg viewBox=\"0 0 5").unwrap()..];
    let svg = &svg[..svg.find("<figcaption>").unwrap()];
    for (class, lanes) in [("lane ok", 1), ("lane fail", 1), ("lane none", 2)] {
        assert_eq!(
            svg.matches(&format!("class=\"{class}\"")).count(),
            lanes,
            "{class}: {svg}"
        );
    }
    for words in [
        "✓ proven",
        "46.0 GB/s",
        "✗ wrong lane",
        "1.0 GB/s",
        "· not tried",
        "node-a",
        "node-b",
        "8 GPUs",
        "8 × IB 400 Gb/s",
    ] {
        assert!(svg.contains(words), "{words}: {svg}");
    }
    // Three pods share a node, so it spans the picture once.
    assert_eq!(svg.matches("class=\"node\"").count(), 2, "{svg}");
    let words = "2 workers on the left, 2 workers on the right; lanes: 1 wrong lane, 2 not tried, 1 proven.";
    assert_eq!(
        text.matches(words).count(),
        2,
        "in the picture and below it"
    );
    // What no line can say is said of the pairs that were tried, in numbers.
    in_order(
        &text,
        &[
            "1 of 4 pairs proven",
            "2 tried",
            "46.0 / 45.8",
            "✓",
            "proven",
            "1.0 / 0.8",
            "✗",
            "wrong lane",
        ],
    );
}

#[test]
fn manifests_alone_show_lanes_that_nobody_tried() {
    let text = page(&["env", "tests/manifests/beta.yaml", "-o", "html"]);
    in_order(
        &text,
        &[
            "<h2>Topology</h2>",
            "lane none",
            "not tried",
            "<h2>Environment</h2>",
        ],
    );
    assert!(!text.contains("lane ok"), "nothing ran");
}

/// Several deployments on one page: what a screen reader lists has names that tell the parts apart.
#[test]
fn parts_of_a_page_of_many_deployments_are_called_differently() {
    let root = env!("CARGO_MANIFEST_DIR");
    let folder = tempfile::tempdir().unwrap();
    let same = folder.path().join("same.yaml");
    std::fs::copy(format!("{root}/demo/healthy/deploy.yaml"), &same).unwrap();
    let healthy = format!("{root}/demo/healthy");
    let rack = format!("{root}/demo/gb200-rack");
    let page = page(&["env", &healthy, &rack, same.to_str().unwrap(), "-o", "html"]);
    let labels: Vec<&str> = page
        .split("role=\"region\" aria-label=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    let different: std::collections::BTreeSet<&str> = labels.iter().copied().collect();
    assert_eq!(labels.len(), 3, "{labels:?}");
    assert_eq!(different.len(), 3, "{labels:?}");
    assert!(
        labels
            .iter()
            .all(|l| l.starts_with("Picture of the topology of ")),
        "{labels:?}"
    );
}

#[test]
fn hostile_text_is_shown_and_never_acts() {
    let (report, places) = reports::hostile_everywhere();
    let text = render(&report);
    for tag in ["<script", "<img", "<b>", "onerror=window.canary={"] {
        assert!(!text.contains(tag), "{tag} is in the page");
    }
    assert_eq!(
        text.matches("</style>").count(),
        1,
        "the style ends where it should"
    );
    let acts = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
    assert!(!text.contains(acts), "a control character is in the page");
    // Names in the picture are cut; everywhere else the text is whole, so each place can be found by its number.
    let lost: Vec<usize> = (1..=places)
        .filter(|n| {
            !text.contains(&format!(
                "&lt;{n}&quot;'&amp;\\u{{202e}}\\u{{1b}}&gt;&lt;script&gt;"
            ))
        })
        .collect();
    // Headlines and pastes of what is not to fix, and the component of a pod that stands for itself.
    assert_eq!(
        lost,
        [27, 35, 36, 44, 45, 59],
        "of {places} are not on the page"
    );
    assert!(places > 70, "{places}");
}

#[test]
fn a_thousand_workers_are_still_one_page() {
    let text = render(&reports::many(500));
    assert!(text.len() < 2_000_000, "{} bytes", text.len());
    let elements = text.matches("</").count();
    assert!(elements < 30_000, "{elements} elements");
    for words in [
        "prefill × 500",
        "500 nodes",
        "220000 not tried",
        "600 wrong lane",
        "more rows: the JSON form (-o json) holds all of them",
        "42 by 42 pairs in each cell",
    ] {
        assert!(text.contains(words), "{words}");
    }
}

/// Custom properties of each scheme, in the order light, dark, print.
fn schemes() -> Vec<BTreeMap<String, [f64; 3]>> {
    let css = include_str!("../../src/render/html/style.css");
    let blocks = css.split(":root {").skip(1);
    let channel = |hex: &str, at: usize| {
        let value = u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        f64::from(value) / 255.0
    };
    let of = |block: &str| {
        let block = block.split('}').next().unwrap();
        let pairs = block
            .split(';')
            .filter_map(|line| line.trim().strip_prefix("--")?.split_once(": #"));
        pairs
            .map(|(name, hex)| {
                (
                    name.to_owned(),
                    [channel(hex, 0), channel(hex, 2), channel(hex, 4)],
                )
            })
            .collect()
    };
    blocks.map(of).collect()
}

/// Contrast as WCAG 2 defines it.
fn contrast(a: [f64; 3], b: [f64; 3]) -> f64 {
    let linear = |c: f64| {
        if c <= 0.04045 {
            c / 12.92
        } else {
            ((c + 0.055) / 1.055).powf(2.4)
        }
    };
    let light =
        |c: [f64; 3]| 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]) + 0.05;
    let (a, b) = (light(a), light(b));
    a.max(b) / a.min(b)
}

/// axe cannot tell what lies below the text of a picture, so every pair of colours that may meet is measured here.
#[test]
fn text_stands_out_in_light_dark_and_print() {
    let schemes = schemes();
    assert_eq!(schemes.len(), 3);
    for (n, scheme) in schemes.iter().enumerate() {
        let of = |name: &str| scheme[name];
        let mut pairs = vec![];
        for text in ["ink", "soft", "link", "ok", "fail", "warn", "skip"] {
            for below in ["page", "card", "code"] {
                pairs.push((text.to_owned(), of(text), below.to_owned(), of(below)));
            }
        }
        for tone in ["ok", "fail", "warn", "skip"] {
            let back = format!("{tone}-back");
            for text in [tone, "ink", "soft"] {
                pairs.push((text.to_owned(), of(text), back.clone(), of(&back)));
            }
        }
        // The strongest cell of the heat map: `share` in src/render/html/pairs.rs.
        let mixed = |at: usize| 0.45 * of("heat")[at] + 0.55 * of("card")[at];
        pairs.push((
            "ink".into(),
            of("ink"),
            "heat".into(),
            [mixed(0), mixed(1), mixed(2)],
        ));
        for (text, a, below, b) in pairs {
            let ratio = contrast(a, b);
            assert!(ratio >= 4.5, "scheme {n}: {text} on {below} has {ratio:.2}");
        }
    }
}

/// Pages that a browser shall look at, in a folder of their own.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let texts = [
        (
            "tcp-fallback",
            page(&["demo", "tcp-fallback", "-o", "html"]),
        ),
        ("healthy", page(&["demo", "healthy", "-o", "html"])),
        ("gb200-rack", page(&["demo", "gb200-rack", "-o", "html"])),
        (
            "manifests",
            page(&["env", "tests/manifests/beta.yaml", "-o", "html"]),
        ),
        (
            "several",
            page(&["env", "demo/healthy", "demo/gb200-rack", "-o", "html"]),
        ),
        (
            "unreadable",
            page(&["env", "no-such-file.yaml", "-o", "html"]),
        ),
        ("square", render(&reports::square())),
        ("hostile", render(&reports::hostile_everywhere().0)),
        ("thousand", render(&reports::many(500))),
    ];
    fs::create_dir_all(folder).unwrap();
    let write = |(name, text): (&str, String)| {
        let path = folder.join(format!("{name}.html"));
        fs::write(&path, text).unwrap();
        path
    };
    texts.into_iter().map(write).collect()
}

#[test]
fn a_browser_and_axe_find_nothing_to_complain_about() {
    let Some(browser) = std::env::var_os("INTERCONNECT_BROWSER") else {
        skip::aloud("HTML pages in a browser: INTERCONNECT_BROWSER is not set");
        return;
    };
    let modules = std::env::var_os("INTERCONNECT_BROWSER_MODULES");
    let modules = modules.expect("INTERCONNECT_BROWSER_MODULES names no node_modules");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = root.join("target/html");
    let pages = pages(&folder);
    let out = Command::new("node")
        .arg(root.join("tests/html/look.mjs"))
        .arg(browser)
        .arg(&folder)
        .args(&pages)
        .env("NODE_PATH", modules)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    let also = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}{also}");
    // Four views of each, and two of the page of a thousand workers.
    assert_eq!(
        said.matches("\"violations\":0").count(),
        4 * pages.len() - 2,
        "{said}"
    );
}
