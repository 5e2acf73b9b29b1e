# Every task of this repository. `just` lists them.

default:
    @just --list

# What the gate runs.
ci:
    bash .ci/run

# Formatting. rustfmt does not see modules that a macro declares, so the check files are named.
fmt:
    cargo fmt
    rustfmt --edition 2024 src/checks/*/*.rs

# Lints.
lint:
    cargo clippy --all-targets -- -D warnings

# All tests.
test:
    cargo test

# Rewrites the documentation that is made from the code.
docs:
    UPDATE=1 cargo test --lib docs

# Rewrites the two screenshots of docs/, after the browser test has made them (CONTRIBUTING.md).
pictures:
    pngquant 64 --force --speed 1 --output docs/report-desktop.png target/html/tcp-fallback-desktop-light.png
    pngquant 48 --force --speed 1 --output docs/report-phone.png target/html/tcp-fallback-phone-dark.png

# What `env`, planning and the cluster side cost; benches/README.md says what is asserted.
bench:
    bash benches/env.sh
    cargo bench --bench plan
    cargo bench --bench cluster

# The published binary.
dist:
    cargo build --profile dist
