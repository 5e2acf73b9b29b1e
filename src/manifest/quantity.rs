//! Kubernetes quantities of memory, as far as manifests use them.
//!
//! Source: `k8s.io/apimachinery/pkg/api/resource`, suffixes of the binary and the decimal form.

/// Bytes of a quantity such as `16Gi`, `500M`, `1.5Gi` or `1048576`; None for anything else.
pub fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let factor: u64 = match suffix {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return None,
    };
    let number: f64 = number.parse().ok()?;
    let bytes = number * factor as f64;
    // Sizes of memory are far below the 2^53 up to which the product is exact.
    (0.0..9.0e15).contains(&bytes).then_some(bytes as u64)
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
        ];
        for (text, expected) in cases {
            assert_eq!(bytes(text), expected, "{text:?}");
        }
    }
}
