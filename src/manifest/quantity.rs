//! Kubernetes quantities of memory, as far as manifests use them.
//!
//! Source: `k8s.io/apimachinery/pkg/api/resource`, the binary and the decimal suffixes and the exponent.

/// Bytes of a quantity such as `16Gi`, `500M`, `1.5Gi`, `1e9` or `1048576`; None for anything else.
pub fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let text = text.strip_prefix('+').unwrap_or(text);
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let number: f64 = number.parse().ok()?;
    let bytes = number * factor(suffix)?;
    // Sizes of memory are far below the 2^53 up to which the product is exact. A part of a byte counts as one.
    (0.0..9.0e15).contains(&bytes).then(|| bytes.ceil() as u64)
}

/// What a suffix multiplies with. `E` alone is a suffix, before a number it is an exponent.
fn factor(suffix: &str) -> Option<f64> {
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    const DECIMAL: [(&str, i32); 10] = [
        ("n", -9),
        ("u", -6),
        ("m", -3),
        ("", 0),
        ("k", 3),
        ("M", 6),
        ("G", 9),
        ("T", 12),
        ("P", 15),
        ("E", 18),
    ];
    if let Some(power) = BINARY.iter().position(|s| *s == suffix) {
        return Some(1024f64.powi(i32::try_from(power).ok()? + 1));
    }
    let decimal = DECIMAL
        .iter()
        .find(|(s, _)| *s == suffix)
        .map(|(_, power)| *power);
    let exponent = || suffix.strip_prefix(['e', 'E'])?.parse().ok();
    decimal.or_else(exponent).map(|power| 10f64.powi(power))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_of_suffixes() {
        let cases = [
            ("16Gi", Some(16 << 30)),
            ("0", Some(0)),
            ("1.5Gi", Some(3 << 29)),
            ("500M", Some(500_000_000)),
            ("64 Gi", None),
            ("", None),
            ("-1Gi", None),
            ("emptyDir", None),
            ("1e3", Some(1_000)),
            ("1.5E9", Some(1_500_000_000)),
            ("64e+9", Some(64_000_000_000)),
            ("1e-1", Some(1)),
            ("1500m", Some(2)),
            ("+1Pi", Some(1 << 50)),
            ("1E", None),
            ("1e", None),
            ("1e3Gi", None),
            ("1e999999999999", None),
            ("inf", None),
        ];
        for (text, expected) in cases {
            assert_eq!(bytes(text), expected, "{text:?}");
        }
    }
}
