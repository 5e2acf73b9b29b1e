//! Outputs as people paste them, read as a person reads them.
//!
//! `INTERCONNECT_CORPUS` names a folder with `outputs/INDEX.tsv` (third-party outputs, which are not ours to ship) and
//! `soft-roce` (captures). Each row of the index has one expectation here, made by hand from its `right_reading`; a row
//! without one fails the test. Without the folder these tests say so and pass; the samples beside this file always run.

#![expect(
    clippy::unwrap_used,
    reason = "the exemption for tests does not reach helpers of an integration test"
)]

mod corpus;
mod host;
mod logs;
mod nvidia;
mod pasted;
mod rdma;
mod soft_roce;
mod totality;

/// An expectation about one file of the corpus.
type Expectation = (&'static str, fn(&str));

/// All expectations, by kind of output.
fn expectations() -> Vec<Expectation> {
    [
        nvidia::EXPECTATIONS,
        rdma::EXPECTATIONS,
        host::EXPECTATIONS,
        logs::EXPECTATIONS,
    ]
    .concat()
    .into_iter()
    .chain(nvidia::topologies())
    .collect()
}

#[test]
fn every_file_of_the_corpus_reads_as_its_row_says() {
    let Some(corpus) = corpus::folder() else {
        return;
    };
    let outputs = corpus.join("outputs");
    let mut indexed = corpus::index(&outputs);
    let mut expected: Vec<&str> = expectations().iter().map(|(file, _)| *file).collect();
    indexed.sort();
    expected.sort();
    assert_eq!(
        indexed, expected,
        "one expectation for each row of the index"
    );
    for (file, check) in expectations() {
        eprintln!("{file}");
        check(&corpus::read(&outputs.join(file)));
    }
}
